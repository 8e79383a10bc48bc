// The processors that this thread and the programs it starts may run on.
//
//   const OnProcessors here(some_processors(allowed_processors(), 1, round));
//   ChildProcess child(command);   // runs on that one processor
#pragma once

#include <vector>

namespace ridgeline {

std::vector<int> allowed_processors();  // empty: the system does not tell

// `count` neighbours of `all`, the next ones for the next `turn`; all of them if there are no more.
std::vector<int> some_processors(const std::vector<int>& all, int count, int turn);

// Restricts this thread while it lives. A restriction that the system refuses is none: it makes
// figures steadier, and nothing rests on it.
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
