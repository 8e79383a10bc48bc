// What a GPU did, as its own tracing tells it, and which call of ours each piece belongs to.
//
//   std::string why_not;
//   const auto tracer = open_gpu_activity(why_not);   // before the first device is made
//   tracer->begin(7);  device.run(...);  tracer->end();
//   device.synchronize();
//   const Activity activity = tracer->take();          // activity.owner(activity.work[0]) == 7
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/cuda_libraries.h"

namespace ridgeline {

// Something that occupied a device: a kernel, a copy, a fill.
struct DeviceWork {
  enum class Kind : uint8_t { kernel, copy, fill };
  Kind kind = Kind::kernel;
  std::string name;                  // of the kernel's function; "Memcpy DtoD", "Memset"
  int64_t begin_ns = 0, end_ns = 0;  // by the tracer's clock
  uint32_t device = 0, context = 0, stream = 0;
  uint32_t correlation = 0;  // of the call that started it
  uint32_t graph = 0;        // a launch graph; 0: started by itself
  uint64_t graph_node = 0;
  std::array<int, 3> grid = {}, block = {};
  int registers_per_thread = 0;
  int64_t shared_bytes = 0;
  int64_t bytes = 0;  // of a copy or a fill
};

// A call of the driver that started work.
struct LaunchCall {
  std::string name;  // "cuLaunchKernelEx"
  int64_t begin_ns = 0, end_ns = 0;
  uint32_t correlation = 0;
  uint32_t thread = 0;
};

struct Activity {
  std::vector<DeviceWork> work;                        // in the order of its beginning
  std::vector<LaunchCall> calls;                       // of the work above
  std::unordered_map<uint32_t, uint64_t> marks;        // of calls, by correlation
  std::unordered_map<uint64_t, uint64_t> graph_marks;  // of captured calls, by graph node
  size_t captured = 0;   // nodes of launch graphs that were captured under a mark, ever
  size_t dropped = 0;    // records that did not fit the buffers
  size_t not_timed = 0;  // records without times, which are left out of `work`

  // The mark under which the work was started by itself, or captured into its launch graph.
  std::optional<uint64_t> owner(const DeviceWork& piece) const;
  // The mark under which the call was made that started it, such as the start of a launch graph.
  std::optional<uint64_t> started_under(const DeviceWork& piece) const;
};

class ActivityTracer {
 public:
  virtual ~ActivityTracer() = default;
  virtual std::string description() const = 0;  // "CUPTI 13.0"
  virtual int64_t now_ns() const = 0;           // the clock of all its times
  // What this thread starts or captures between begin() and end() gets the mark; they nest.
  virtual void begin(uint64_t mark) = 0;
  virtual void end() = 0;
  // Everything since the last call; the device's work must have been waited for.
  virtual Activity take() = 0;
  // Ends tracing for good: what follows runs as it does without. False: this library cannot.
  virtual bool stop() = 0;
};

// Tracing of all GPUs of this process, by CUPTI. To be called before the first device is made, as
// CUPTI has to see contexts, modules and captures from their beginning, and once in a process.
// Null: `why_not` says in a sentence why there is none.
std::unique_ptr<ActivityTracer> open_gpu_activity(std::string& why_not);
std::unique_ptr<ActivityTracer> open_gpu_activity(const CudaLibrary& cupti, std::string& why_not);

}  // namespace ridgeline
