// Opens the device that the flags ask for.
#pragma once

#include <memory>
#include <string>

#include "report/terminal/progress.h"
#include "runtime/device.h"
#include "studies/shared_flags.h"

namespace ridgeline {

// "auto", "cpu", "cuda", "cuda:1".
struct DeviceChoice {
  enum class Kind { automatic, cpu, cuda } kind = Kind::automatic;
  int ordinal = 0;
};
DeviceChoice parse_device(const std::string& text);  // throws a usage error

// "auto" selects a usable GPU, else the CPU; if a driver is present, a line on stderr says why the
// GPU is not used. Throws an unsupported error for a device that cannot be used. `stage` is called
// with the progress of compiling kernels.
std::unique_ptr<Device> open_device(const DeviceFlags& flags, const StageHook& stage = {});

}  // namespace ridgeline
