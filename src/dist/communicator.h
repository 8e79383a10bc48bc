// Collectives of one rank, whoever carries them out: threads of this process, MPI, Gloo, NCCL.
//
//   EventRef reduced = communicator.start({.kind = CollectiveKind::all_reduce, .dtype =
//   DType::bf16,
//                                          .count = n, .in = gradients, .out = gradients},
//                                         {{backward_done}});
//   ...                       // compute goes on
//   reduced->wait();          // or hand it to whatever must come after
//
// An executor starts a collective as it starts a kernel: after events, giving an event. Collectives
// of one communicator run one after the other, in the order in which they were started, which must
// be the same on all ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/collective.h"

namespace ridgeline {

// When work ran, by the host's monotonic clock.
struct EventSpan {
  int64_t began_ns = 0, ended_ns = 0;
};

// A moment in the work of the host or of a device that others can wait for.
class Event {
 public:
  virtual ~Event() = default;
  // Holds up the calling thread; throws what the work that it stands for has thrown.
  virtual void wait() = 0;
  virtual bool is_done() const = 0;
  // The device's own event (a CUevent), which its queues wait for without the host; null: none.
  virtual void* device_event() const { return nullptr; }
  // Of the work that it stands for, once it is done; of a moment its end alone. Empty: nobody has
  // timed it.
  virtual std::optional<EventSpan> span() const { return std::nullopt; }
};
using EventRef = std::shared_ptr<Event>;

struct CommunicatorFacts {
  std::string backend;  // "threads", "openmpi", "mpich", "gloo", "nccl"
  std::string library;  // that served, with its version: "Open MPI 4.1.4"
  int rank = 0, size = 1;
  // Collectives wait in the queue of a device, so that a launch graph can have them.
  bool is_queued = false;
  int multiprocessors = 0;  // of a device, that kernels of collectives keep busy
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual const CommunicatorFacts& facts() const = 0;
  int rank() const { return facts().rank; }
  int size() const { return facts().size; }

  // Starts after all of `after` are done and all that was started before. The memory must stay
  // until the event is done. Throws a usage error for what no rank could run.
  virtual EventRef start(const Collective& what, std::vector<EventRef> after) = 0;
  EventRef start(const Collective& what) { return start(what, {}); }

  // The same and waits. Where nothing else is under way a host's backend runs it on the calling
  // thread, which saves two switches of threads.
  virtual void run(const Collective& what) { start(what)->wait(); }
  void barrier() { run({}); }
};

// Throws a usage error for a collective that none can run: a sum of a type without one, a root that
// is no rank, a missing buffer.
void check_collective(const Collective& what, int ranks);

}  // namespace ridgeline
