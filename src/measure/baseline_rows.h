// Comparisons (compare.h) as rows of the public harness.
#pragma once

#include <filesystem>
#include <vector>

#include "measure/compare.h"
#include "ridgeline/harness.h"

namespace ridgeline {

// The axes of records that a harness wrote, under any study name: whether caches were cold.
StudyAxes harness_axes();

std::vector<BaselineRow> baseline_rows(const std::filesystem::path& baseline,
                                       const std::filesystem::path& results,
                                       const CompareOptions& options);

}  // namespace ridgeline
