// Reads the ceilings that an earlier `ridgeline roofline` stored in the results folder.
#pragma once

#include <filesystem>
#include <optional>

#include "measure/machine.h"
#include "measure/roofline_model.h"
#include "runtime/device.h"

namespace ridgeline {

// The ceilings of this device, machine and thread count; empty if none were measured.
std::optional<Roofline> stored_ceilings(const std::filesystem::path& results_dir,
                                        const Device& device, const MachineFacts& machine);

}  // namespace ridgeline
