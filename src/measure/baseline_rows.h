// Verdicts of the engine (compare.h) in the words of the public harness.
#pragma once

#include <filesystem>
#include <vector>

#include "measure/compare.h"
#include "ridgeline/harness.h"

namespace ridgeline {

// Of records that a harness wrote, whatever it calls its study: whether caches were cold.
StudyAxes harness_axes();

std::vector<BaselineRow> baseline_rows(const std::filesystem::path& baseline,
                                       const std::filesystem::path& results,
                                       const CompareOptions& options);

}  // namespace ridgeline
