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

// "auto" is a GPU that can be driven, else the CPU; one line on stderr says why a GPU whose driver
// is there was passed over. Throws an unsupported error for a device that cannot be driven.
// `stage` is told how many kernels are compiled of how many, whenever there are some to compile.
std::unique_ptr<Device> open_device(const DeviceFlags& flags, const StageHook& stage = {});

}  // namespace ridgeline
