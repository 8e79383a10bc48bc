// Ranks that are threads of this process: sums in the order of ranks, each rank a slice of them.
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

  // Once for each rank. A rank whose communicator is gone has left: others that wait for it throw.
  std::unique_ptr<Communicator> communicator(int rank);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace ridgeline
