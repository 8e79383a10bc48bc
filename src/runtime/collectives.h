// The collectives of a graph while it runs: started by a communicator beside the kernels of a
// device, waited for where a plan or a schedule says so, and timed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "runtime/device.h"

namespace ridgeline {

// One collective of a run. Times are of the host's monotonic clock.
struct CollectiveRun {
  std::string name;  // of the node
  CollectiveKind kind = CollectiveKind::all_reduce;
  DType dtype = DType::f32;
  int64_t bytes = 0;      // of the whole buffer
  double sent_bytes = 0;  // that this rank must send (bus_factor)
  // When the work beside it came to its start, and to the place that waits for it.
  int64_t started_ns = 0, needed_ns = 0;
  int64_t began_ns = 0, ended_ns = 0;  // 0: nobody has timed it
  int64_t waited_ns = 0;               // the work beside it waited for so long
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
  ~Collectives();  // waits for all
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // Throws a usage error unless the communicator has the ranks that the graph was made for.
  void check(const Graph& graph) const;

  void begin_run();  // forgets the collectives of the last one
  // After all that the device was given so far. `number` is the caller's, for join().
  void start(uint32_t number, const Node& node, const std::string& name, const TensorView& in,
             const TensorView& out);
  // What the device is given from now on comes after these.
  void join(uint32_t number);
  void join_all();
  // After an error: waits for all, whatever becomes of them.
  void drop_all() noexcept;

  // Of the last run, or of the latest replay of a recording; waits for what is not done.
  std::vector<CollectiveRun> runs() const;

 private:
  struct Started {
    CollectiveRun run;
    EventRef done;
    // Of a device with a queue: its work has come to the start, and to the place that waits.
    EventRef started = {}, needed = {};
  };

  Device& device_;
  Communicator* communicator_;
  std::map<uint32_t, size_t> pending_;  // in started_, by the caller's number
  std::vector<Started> started_;
};

}  // namespace ridgeline
