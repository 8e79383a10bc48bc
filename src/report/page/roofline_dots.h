// The ceilings that a record is held against.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "measure/arithmetic.h"
#include "report/page/rows.h"

namespace ridgeline {

struct Ceilings {
  std::optional<double> flops_per_s = {};
  std::optional<double> bytes_per_s = {};
  std::string source = {};
  std::vector<MemoryCeiling> caches = {};  // measured; the smallest first

  std::optional<double> roof(double intensity) const {
    if (bytes_per_s && flops_per_s) return std::min(*flops_per_s, *bytes_per_s * intensity);
    return flops_per_s;
  }
};

// Measured on the same machine where `ridgeline roofline` ran there, else from paper.
Ceilings ceilings_of(const ReportContext& context, const Record& record,
                     const Arithmetic& arithmetic);

}  // namespace ridgeline
