// Measures the speed of the processors beside a row with fixed work.
//
// Virtual processors that share a core, possibly with another machine, take twice as long for
// everything, and so do threads that the scheduler keeps on one processor. /proc does not show
// this: a row measured then looks like twice the work.
//
//   record.speed_before = processor_speed(pool.threads(), on_threads);
//   ... samples ...
//   record.speed_after = processor_speed(pool.threads(), on_threads);
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace ridgeline {

// Rates per thread, measured in about a millisecond.
struct ProcessorSpeed {
  int threads = 0;             // that ran concurrently
  double alone_gflops = 0;     // one thread, arithmetic on registers
  double together_gflops = 0;  // the same with all threads, until the last one finishes
  double memory_gb_per_s = 0;  // reads of uncached memory with all threads

  bool operator==(const ProcessorSpeed&) const = default;
};

// Calls its argument concurrently with 0 to threads - 1.
using OnThreads = std::function<void(const std::function<void(int thread)>&)>;

ProcessorSpeed processor_speed(int threads, const OnThreads& on_threads);
ProcessorSpeed processor_speed(int threads);  // on threads that it starts

// Rates that differ by more than this factor indicate a different state of the machine.
inline constexpr double kSpeedApart = 1.25;

// The largest difference between the rates of two speeds.
struct SpeedGap {
  double factor = 1;  // at least 1; infinite: a rate is 0 or not finite
  bool second_slower = false;
  std::string_view what = {};  // "threads together computed"

  bool is_apart() const { return !(factor <= kSpeedApart); }
  std::string text() const;  // "threads together computed 1.9x slower"
};
SpeedGap speed_gap(const ProcessorSpeed& first, const ProcessorSpeed& second);

// The minimum of two speeds, and the median of at least one, for each rate separately.
ProcessorSpeed slower_rates(const ProcessorSpeed& first, const ProcessorSpeed& second);
ProcessorSpeed median_rates(std::span<const ProcessorSpeed> speeds);

}  // namespace ridgeline
