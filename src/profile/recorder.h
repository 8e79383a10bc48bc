// Runs an executable under a schedule and keeps what its kernels did.
//
//   std::string why_not;
//   const auto tracer = open_gpu_activity(why_not);          // before the device is made
//   ... device, executable.prepare(), uploads; nothing was run yet ...
//   const Profile profile = record_profile(executable, device, tracer.get(), {.why_not = why_not});
//
// With a tracer, launch graphs stay launch graphs. Without one the executor's own events serve: on
// a CPU the host's clock around every kernel and the spans of each thread, on a GPU events between
// kernels, which are then started one by one. It prints nothing.
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
  std::string why_not = {};  // there is no tracer: passed on to the profile
  bool compare = true;       // whether as many steps are timed without tracing afterwards
};

// `tracer` may be null. It has to have been there before the device; it is stopped at the end if
// untraced steps are timed. The executable is prepared and was not run before: what was recorded
// already could not be mapped to nodes.
Profile record_profile(Executable& executable, Device& device, ActivityTracer* tracer,
                       const RecordOptions& options = {});

}  // namespace ridgeline
