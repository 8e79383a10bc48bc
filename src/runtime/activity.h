// What a GPU did, as traced by CUPTI, and which of our calls each piece of work belongs to.
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
  int64_t begin_ns = 0, end_ns = 0;  // on the tracer's clock
  uint32_t device = 0, context = 0, stream = 0;
  uint32_t correlation = 0;  // id of the call that launched it
  uint32_t graph = 0;        // the launch graph; 0: launched directly
  uint64_t graph_node = 0;
  std::array<int, 3> grid = {}, block = {};
  int registers_per_thread = 0;
  int64_t shared_bytes = 0;
  int64_t bytes = 0;  // of a copy or a fill
};

// A driver call that launched work.
struct LaunchCall {
  std::string name;  // "cuLaunchKernelEx"
  int64_t begin_ns = 0, end_ns = 0;
  uint32_t correlation = 0;
  uint32_t thread = 0;
};

struct Activity {
  std::vector<DeviceWork> work;                        // ordered by start time
  std::vector<LaunchCall> calls;                       // of the work above
  std::unordered_map<uint32_t, uint64_t> marks;        // of calls, by correlation
  std::unordered_map<uint64_t, uint64_t> graph_marks;  // of captured calls, by graph node
  size_t captured = 0;   // launch graph nodes captured under a mark so far
  size_t dropped = 0;    // records that did not fit the buffers
  size_t not_timed = 0;  // records without times, which are left out of `work`

  // The mark under which the work was launched directly, or captured into its launch graph.
  std::optional<uint64_t> owner(const DeviceWork& piece) const;
  // The mark of the call that launched it, such as the launch of a launch graph.
  std::optional<uint64_t> started_under(const DeviceWork& piece) const;
};

class ActivityTracer {
 public:
  virtual ~ActivityTracer() = default;
  virtual std::string description() const = 0;  // "CUPTI 13.0"
  virtual int64_t now_ns() const = 0;           // on the clock of all its times
  // Work that this thread launches or captures between begin() and end() gets the mark; calls nest.
  virtual void begin(uint64_t mark) = 0;
  virtual void end() = 0;
  // Everything since the last call; synchronize the device before.
  virtual Activity take() = 0;
  // Ends tracing permanently: later work runs as without tracing. False: this library cannot.
  virtual bool stop() = 0;
};

// Traces all GPUs of this process with CUPTI. Call it once per process and before the first device
// is created, as CUPTI has to see contexts, modules and captures from their creation. Null:
// `why_not` gives the reason in a sentence.
std::unique_ptr<ActivityTracer> open_gpu_activity(std::string& why_not);
std::unique_ptr<ActivityTracer> open_gpu_activity(const CudaLibrary& cupti, std::string& why_not);

}  // namespace ridgeline
