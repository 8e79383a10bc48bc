// How fast the processors themselves are beside a row, by work that is always the same.
//
// Virtual processors that share a core, or share it with another machine, take twice as long for
// everything, and so do threads that the system keeps on one processor. Nothing in /proc tells: a
// row of such a moment looks like twice the work.
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

// Rates of a thread; a look takes about a millisecond.
struct ProcessorSpeed {
  int threads = 0;             // that worked at once
  double alone_gflops = 0;     // one thread's arithmetic, on registers
  double together_gflops = 0;  // the same while all work, by the time of the last one
  double memory_gb_per_s = 0;  // the same of reading what no cache holds

  bool operator==(const ProcessorSpeed&) const = default;
};

// Calls its argument with 0 to threads - 1, all at the same time.
using OnThreads = std::function<void(const std::function<void(int thread)>&)>;

ProcessorSpeed processor_speed(int threads, const OnThreads& on_threads);
ProcessorSpeed processor_speed(int threads);  // on threads that it starts

// Rates further apart than this factor are those of processors in another state.
inline constexpr double kSpeedApart = 1.25;

// The rate that differs most.
struct SpeedGap {
  double factor = 1;           // at least 1; infinite: a rate is none
  bool second_slower = false;  // which of the two
  std::string_view what = {};  // "threads together computed"

  bool is_apart() const { return !(factor <= kSpeedApart); }
  std::string text() const;  // "threads together computed 1.9x slower"
};
SpeedGap speed_gap(const ProcessorSpeed& first, const ProcessorSpeed& second);

// Rate by rate: the least of two, and the median of at least one.
ProcessorSpeed slower_rates(const ProcessorSpeed& first, const ProcessorSpeed& second);
ProcessorSpeed median_rates(std::span<const ProcessorSpeed> speeds);

}  // namespace ridgeline
