// The ceilings that an earlier `ridgeline roofline` left in the results folder.
#pragma once

#include <filesystem>
#include <optional>

#include "measure/machine.h"
#include "measure/roofline_model.h"
#include "runtime/device.h"

namespace ridgeline {

// Those of this device on this machine, with as many threads; empty: none were measured.
std::optional<Roofline> stored_ceilings(const std::filesystem::path& results_dir,
                                        const Device& device, const MachineFacts& machine);

}  // namespace ridgeline
