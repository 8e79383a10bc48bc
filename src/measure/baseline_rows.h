// Verdicts of the engine (compare.h) in the words of the public harness.
#pragma once

#include <filesystem>
#include <vector>

#include "measure/compare.h"
#include "ridgeline/harness.h"

namespace ridgeline {

std::vector<BaselineRow> baseline_rows(const std::filesystem::path& baseline,
                                       const std::filesystem::path& results,
                                       const CompareOptions& options);

}  // namespace ridgeline
