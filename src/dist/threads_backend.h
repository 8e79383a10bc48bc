// A backend for ranks that are threads of this process: each rank sums a slice, in rank order.
//
//   ThreadGroup group(4);
//   std::unique_ptr<Communicator> mine = group.communicator(rank);   // on the thread of that rank
#pragma once

#include <memory>

#include "dist/communicator.h"

namespace ridgeline {

class ThreadGroup {
 public:
  // A rank waits at most `deadline_s` for the others.
  explicit ThreadGroup(int size, double deadline_s = 300);
  ~ThreadGroup();

  // Call it once per rank. Destroying the communicator leaves the group: ranks that wait throw.
  std::unique_ptr<Communicator> communicator(int rank);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace ridgeline
