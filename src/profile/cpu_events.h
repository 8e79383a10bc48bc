// Counts perf events of CPU threads: time, page faults and context switches, and cycles,
// instructions and cache misses where the machine permits.
//
//   CpuEvents events(pool);
//   events.start();  ...  const CpuCounts counts = events.stop();
#pragma once

#include <sys/resource.h>

#include <optional>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "kernels/cpu/thread_pool.h"

namespace ridgeline {

struct CpuCount {
  std::string name;             // "task_clock_ns", "cycles"
  std::optional<double> total;  // of all threads; empty: `why_not` gives the reason
  std::string why_not;
  std::vector<double> by_thread;  // of the pool; empty if only the process is counted
};

struct CpuCounts {
  std::vector<CpuCount> counts;
  double forced_switches = 0;  // involuntary context switches

  const CpuCount* find(std::string_view name) const;
};

class CpuEvents {
 public:
  explicit CpuEvents(ThreadPool& pool);  // while the pool is idle
  void start();
  CpuCounts stop();

 private:
  struct Event {
    std::vector<FileDescriptor> threads;  // empty: not available
    std::string why_not;
  };
  std::vector<Event> events_;
  rusage before_ = {};
};

}  // namespace ridgeline
