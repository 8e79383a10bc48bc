// The interface to collectives of one rank, for all backends: threads, MPI, Gloo, NCCL.
//
//   EventRef reduced = communicator.start(
//       {.kind = CollectiveKind::all_reduce, .dtype = DType::bf16, .count = n, .in = gradients,
//        .out = gradients},
//       {{backward_done}});
//   ...                       // computation continues
//   reduced->wait();          // or pass it to work that must run after it
//
// An executor starts a collective asynchronously: it runs after given events and returns an event.
// Collectives of one communicator run one after another, in the order in which they were started,
// which must be the same on all ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/collective.h"

namespace ridgeline {

// When work ran, on the host's monotonic clock.
struct EventSpan {
  int64_t began_ns = 0, ended_ns = 0;
};

// Completion of work of the host or of a device.
class Event {
 public:
  virtual ~Event() = default;
  // Blocks the calling thread; rethrows an exception of the work.
  virtual void wait() = 0;
  virtual bool is_done() const = 0;
  // The CUevent, for which streams wait without the host; null: none.
  virtual void* device_event() const { return nullptr; }
  // The span of the work, once it is done; only its end is meaningful for an event that marks a
  // point in a queue. Empty: not timed.
  virtual std::optional<EventSpan> span() const { return std::nullopt; }
};
using EventRef = std::shared_ptr<Event>;

struct CommunicatorFacts {
  std::string backend;  // "threads", "openmpi", "mpich", "gloo", "nccl"
  std::string library;  // with its version: "Open MPI 4.1.4"
  int rank = 0, size = 1;
  // Collectives are enqueued on a stream of the device, so that a launch graph can contain them.
  bool is_queued = false;
  int multiprocessors = 0;  // of a device, occupied by kernels of collectives
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual const CommunicatorFacts& facts() const = 0;
  int rank() const { return facts().rank; }
  int size() const { return facts().size; }

  // Starts a collective, which runs after the events in `after` and after all earlier collectives.
  // Its buffers must stay valid until the returned event is done. Throws as check_collective().
  virtual EventRef start(const Collective& what, std::vector<EventRef> after) = 0;
  EventRef start(const Collective& what) { return start(what, {}); }

  // Starts and waits. A host backend that is idle runs the collective on the calling thread, which
  // saves two context switches.
  virtual void run(const Collective& what) { start(what)->wait(); }
  void barrier() { run({}); }
};

// Throws a usage error for an invalid collective: a sum of integers, a root that is not a rank, a
// missing buffer.
void check_collective(const Collective& what, int ranks);

}  // namespace ridgeline
