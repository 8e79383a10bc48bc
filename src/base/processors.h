// The processor affinity of this thread and of the programs it starts.
//
//   const OnProcessors here(some_processors(allowed_processors(), 1, round));
//   ChildProcess child(command);   // runs on that one processor
#pragma once

#include <vector>

namespace ridgeline {

std::vector<int> allowed_processors();  // empty: unknown

// Returns `count` consecutive elements of `all`, the next ones for each `turn`; at most all.
std::vector<int> some_processors(const std::vector<int>& all, int count, int turn);

// Restricts this thread to processors for the lifetime of the object. Failures are ignored: the
// restriction only makes times steadier.
class OnProcessors {
 public:
  explicit OnProcessors(const std::vector<int>& processors);
  ~OnProcessors();
  OnProcessors(const OnProcessors&) = delete;
  OnProcessors& operator=(const OnProcessors&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace ridgeline
