// Runs the collectives of a graph: starts them on a communicator, overlapping the kernels of a
// device, waits where the plan or schedule says, and times them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "runtime/device.h"

namespace ridgeline {

// One collective of a run. Times are on the host's monotonic clock.
struct CollectiveRun {
  std::string name;  // of the node
  CollectiveKind kind = CollectiveKind::all_reduce;
  DType dtype = DType::f32;
  int64_t bytes = 0;      // of the whole buffer
  double sent_bytes = 0;  // sent by this rank (bus_factor)
  // When the overlapping work reached its start, and the point that waits for it.
  int64_t started_ns = 0, needed_ns = 0;
  int64_t began_ns = 0, ended_ns = 0;  // 0: not timed
  int64_t waited_ns = 0;               // how long the overlapping work waited
};

struct CommunicationTotals {
  double communication_ms = 0, exposed_ms = 0;
  double sent_bytes = 0;
  int64_t collectives = 0;
};
CommunicationTotals totals(const std::vector<CollectiveRun>& runs);

class Collectives {
 public:
  // `communicator`: null for graphs without collectives; both outlive this.
  Collectives(Device& device, Communicator* communicator);
  ~Collectives();  // waits for all collectives
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // Throws a usage error unless the communicator has as many ranks as the graph.
  void check(const Graph& graph) const;

  void begin_run();  // forgets those of the last run
  // Starts after all work queued on the device so far. `number` is chosen by the caller, for
  // join().
  void start(uint32_t number, const Node& node, const std::string& name, const TensorView& in,
             const TensorView& out);
  // Work queued on the device from now on runs after these.
  void join(uint32_t number);
  void join_all();
  // After an error: waits for all, ignoring failures.
  void drop_all() noexcept;

  // Of the last run, or of the latest replay of a recording; waits for unfinished ones.
  std::vector<CollectiveRun> runs() const;

 private:
  struct Started {
    CollectiveRun run;
    EventRef done;
    // Of a device with a queue: its work has reached the start, and the point that waits.
    EventRef started = {}, needed = {};
  };

  Device& device_;
  Communicator* communicator_;
  std::map<uint32_t, size_t> pending_;  // in started_, by the caller's number
  std::vector<Started> started_;
};

}  // namespace ridgeline
