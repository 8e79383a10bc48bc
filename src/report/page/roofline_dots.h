// Measured phases by arithmetic intensity, what bounds them, and the ceilings of their machines.
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
  std::optional<MemoryCeiling> loads = {};  // of memory, measured with loads alone
  std::string memory_probe = {};            // that reached bytes_per_s; empty: on paper

  std::optional<double> roof(double intensity) const {
    if (bytes_per_s && flops_per_s) return std::min(*flops_per_s, *bytes_per_s * intensity);
    return flops_per_s;
  }
};

// Returns measured ceilings if `ridgeline roofline` ran on the machine, else those on paper.
Ceilings ceilings_of(const ReportContext& context, const Record& record,
                     const Arithmetic& arithmetic);

std::vector<RooflineDot> roofline_dots(const ReportContext& context);

// The kind of work that the legend toggles: "attention", "a decoder layer".
std::string work_of(const Record& record);
// The size of a row: "S 4096, d 64, batch 8", "attention, decode, prompt 128, batch 1".
std::string size_words(const Record& record);
// Its most important part: "S 4096".
std::string short_size(const Record& record);

// RooflineDot::slope, if it is not a cache.
inline constexpr const char *kOfMemory = "memory", *kOfLoads = "loads";

// A dot below this share of its roof is bound by its own code, not by the roof.
inline constexpr double kAtTheRoof = 0.5;
// What bounds a dot that has a roof.
struct DotBound {
  // A cache counts as memory; above: faster than its roof, which therefore bounds nothing.
  // unknown: below half of arithmetic's roof, where the bandwidth of memory is not known.
  enum class Kind { memory, arithmetic, own_code, start, above, unknown };
  Kind kind = Kind::start;
  std::string by = {};       // "memory", "arithmetic", "its own code", "its start ..."
  std::string share = {};    // "87 %"
  std::string roof = {};     // that the share refers to: "the memory roof"
  std::string of_roof = {};  // "87 % of the memory roof", "243 % of ..., which is too low"
};
DotBound dot_bound(const RooflineDot& dot);
// A median is well known if half the width of its interval is at most this.
inline constexpr double kNarrowPercent = 5;
// Returns the dot with the largest share of its roof, preferably with a well-known median. Ignores
// dots above the roof, whose ceiling was measured too low. Null if there is none.
const RooflineDot* closest_to_roof(const std::vector<const RooflineDot*>& dots);
// " of those known to within 5 %" if another dot is closer, but its median is not well known.
std::string preferred_words(const std::vector<const RooflineDot*>& dots, const RooflineDot& best);
// "memory (87 % of the memory roof)", "its own code or other work (9 % of ...)"; empty without a
// roof.
std::string bound_words(const RooflineDot& dot);
// For a column: "memory, 87 %", "own code or other, 9 %".
std::string short_bound(const RooflineDot& dot);

}  // namespace ridgeline
