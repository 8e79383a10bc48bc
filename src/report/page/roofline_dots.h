// Every measured pass by its arithmetic intensity, what bounds it, and the ceilings that it is held
// against.
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
  std::vector<MemoryCeiling> caches = {};   // measured; the smallest first
  std::optional<MemoryCeiling> loads = {};  // of the memory, measured without a store
  std::string memory_probe = {};            // what reached bytes_per_s; empty: paper

  std::optional<double> roof(double intensity) const {
    if (bytes_per_s && flops_per_s) return std::min(*flops_per_s, *bytes_per_s * intensity);
    return flops_per_s;
  }
};

// Measured on the same machine where `ridgeline roofline` ran there, else from paper.
Ceilings ceilings_of(const ReportContext& context, const Record& record,
                     const Arithmetic& arithmetic);

std::vector<RooflineDot> roofline_dots(const ReportContext& context);

// "attention", "a decoder layer": whose passes are dots together.
std::string work_of(const Record& record);
// "S 4096, d 64, batch 8", "attention, decode, prompt 128, batch 1": the size of a row.
std::string size_words(const Record& record);
// The one part of it that people name first: "S 4096".
std::string short_size(const Record& record);

// Whose bandwidth a roof has, where it is no cache's.
inline constexpr const char *kOfMemory = "memory", *kOfLoads = "loads";

// What reaches less of its roof than this is held back by its own code, not by the roof.
inline constexpr double kAtTheRoof = 0.5;
// What bounds a dot that has a roof.
struct DotBound {
  std::string by = {};     // "memory", "arithmetic", "its own code", "its start ..."
  std::string share = {};  // "87 %"
  std::string roof = {};   // "the memory roof": of which it is that share
};
DotBound dot_bound(const RooflineDot& dot);
// Whose median is known this well may speak for others: half the width of its interval.
inline constexpr double kNarrowPercent = 5;
// With the largest share of its roof, of those whose median is known well if there are any; those
// above the roof are left out: their ceiling was measured too low. Null: none has a roof.
const RooflineDot* closest_to_roof(const std::vector<const RooflineDot*>& dots);
// "memory (87 % of the memory roof)", "its own code or other work (9 % of ...)"; empty: no roof is
// known.
std::string bound_words(const RooflineDot& dot);
// For a column: "memory, 87 %", "own code or other, 9 %".
std::string short_bound(const RooflineDot& dot);

}  // namespace ridgeline
