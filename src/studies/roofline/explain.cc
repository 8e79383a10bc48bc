// Explains what bounds an op on the roofline, and what would help it.
#include <fmt/format.h>

#include <algorithm>

#include "studies/roofline/tables.h"

namespace ridgeline {
namespace {

constexpr double kCloseToTheRoof = 0.7;

enum class Near { any, close, far };  // distance to the roof

struct Advice {
  const char* study;           // empty: any
  const char* implementation;  // empty: any
  const char* device;          // empty: any
  Bound bound;
  Near near;
  const char* text;
};

// The first row that matches gives the advice.
constexpr Advice kAdvice[] = {
    {"attention", "naive", "", Bound::memory, Near::any,
     "flash never stores the S x S scores, which moves it right"},
    {"kernel", "naive", "", Bound::memory, Near::any,
     "flash never stores the S x S scores, which moves it right"},
    {"model", "vanilla", "", Bound::memory, Near::any,
     "fused kernels (--impl compiled) move fewer bytes"},
    {"gemm", "naive", "", Bound::compute, Near::far, "tiles reuse what was read: see tiled"},
    {"gemm", "tiled", "cpu", Bound::compute, Near::far,
     "packed panels and a tile of sums in vector registers: see simd"},
    {"gemm", "tiled", "cuda", Bound::compute, Near::far,
     "more sums per thread, or tensor cores where the dtype has them: see library"},
    {"gemm", "naive", "cuda", Bound::memory, Near::far,
     "neighbouring threads should read neighbouring memory"},
    {"gemm", "", "", Bound::memory, Near::close,
     "fewer bytes save more: a narrower dtype, or several vectors at once, which makes it a GEMM"},
    {"", "", "cuda", Bound::overhead, Near::any,
     "a larger batch, or many calls in one launch graph"},
    {"", "", "", Bound::overhead, Near::any, "more work in a call, such as a larger batch"},
    {"", "", "", Bound::memory, Near::close, "fewer bytes save more: fusion, or a narrower dtype"},
    {"", "", "", Bound::memory, Near::far,
     "contiguous and wide accesses, more of them in flight, and fusion of its steps"},
    {"", "", "", Bound::compute, Near::close,
     "fewer FLOPs save more, or a dtype whose ceiling is higher"},
    {"", "", "", Bound::compute, Near::far,
     "larger tiles, more of them at once, and less work beside the products"},
};

const char* advice(const RooflinePoint& point) {
  const Near near = point.share >= kCloseToTheRoof ? Near::close : Near::far;
  const auto fits = [](std::string_view wanted, std::string_view is) {
    return wanted.empty() || wanted == is;
  };
  for (const Advice& row : kAdvice)
    if (fits(row.study, point.record->study) &&
        fits(row.implementation, point.record->implementation) &&
        fits(row.device, point.record->device) && row.bound == point.bound &&
        (row.near == Near::any || row.near == near))
      return row.text;
  return "";
}

}  // namespace

std::string sentence(const RooflinePoint& point) {
  const std::string what = fmt::format("{} {} in {} ({:.3g} FLOP per byte)", point.workload,
                                       point.phase, point.path, point.intensity);
  const char* help = advice(point);
  if (point.bound == Bound::overhead)
    return fmt::format(
        "{} takes {:.1f} us, of which its roof explains {:.2g} %; in so short a call the rest is "
        "likely to be the time to start it: {}.",
        what, 1e6 * point.seconds, 100 * point.share, help);
  const std::string roof =
      point.bound == Bound::memory ? fmt::format("the bandwidth of {}", point.level) : "arithmetic";
  if (point.share > kCeilingSlack) {
    std::string why = "the probe was disturbed";
    if (point.bound == Bound::memory)
      why = "more of it stayed in a cache than its tensors say, or " + why;
    if (!point.path_is_known)
      why = "its record does not say which arithmetic ran, and another has a higher ceiling, or " +
            why;
    return fmt::format("{} is bounded by {} and runs at {:.0f} % of what the probe reached: {}.",
                       what, roof, 100 * point.share, why);
  }
  if (point.share >= kCloseToTheRoof)
    return fmt::format(
        "{} is bounded by {} and reaches {:.0f} % of it, so tuning saves at most {:.0f} % of its "
        "time: {}.",
        what, roof, 100 * point.share, 100 * std::max(0.0, 1 - point.share), help);
  return fmt::format("{} could be bounded by {} alone, and reaches {:.2g} % of it: {}.", what, roof,
                     100 * point.share, help);
}

}  // namespace ridgeline
