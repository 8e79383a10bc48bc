// Runs an executable under a schedule and records its kernels.
//
//   std::string why_not;
//   const auto tracer = open_gpu_activity(why_not);          // before the device is made
//   ... device, executable.prepare(), uploads; no run yet ...
//   const Profile profile = record_profile(executable, device, tracer.get(), {.why_not = why_not});
//
// With a tracer, launch graphs are used as usual. Without one, times come from the host's clock
// around every kernel and the spans of each thread on a CPU, and on a GPU from events between
// kernels, which are then launched one by one. Prints nothing.
#pragma once

#include <functional>
#include <string>

#include "profile/profile.h"
#include "profile/schedule.h"

namespace ridgeline {

struct RecordOptions {
  ProfileSchedule schedule = {};
  std::function<void()> step = {};  // one step; empty: all stages of the executable
  PredictKernel predict = {};
  std::string why_not = {};  // why there is no tracer; copied to the profile
  bool compare = true;       // whether to time as many steps without tracing afterwards
};

// `tracer` may be null. It must have been opened before the device was created, and is stopped at
// the end if `compare` is set. The executable must be prepared and not have run before: launch
// graphs that exist already could not be mapped to nodes.
Profile record_profile(Executable& executable, Device& device, ActivityTracer* tracer,
                       const RecordOptions& options = {});

}  // namespace ridgeline
