// The harness behind the C interface.
#include <ridgeline/harness.h>
#include <ridgeline/measure.h>

#include <fmt/format.h>

#include <algorithm>

#include "api/border.h"

namespace ridgeline {
namespace {

std::string text_or(const char* text, const char* otherwise) {
  return text == nullptr ? otherwise : text;
}

Callable read_callable(const rl_callable& given) {
  if (given.time_ms == nullptr)
    throw invalid("rl_callable.time_ms is null", "pass a function that runs the work");
  if (given.name == nullptr || *given.name == '\0')
    throw invalid("rl_callable.name is empty", "name the workload");
  if (given.size_count > 0 && (given.size_names == nullptr || given.sizes == nullptr))
    throw invalid(
        fmt::format("rl_callable.size_count is {}, but names or sizes are null", given.size_count),
        "pass both");
  Callable callable{
      .name = given.name,
      .implementation = text_or(given.implementation, "default"),
      .device = text_or(given.device, "cpu"),
      .flops = given.flops,
      .bytes = given.bytes,
      .convention = text_or(given.convention, ""),
      .run = [] {},
      .time_ms = [given](const std::function<void()>&) { return given.time_ms(given.user); }};
  for (size_t i = 0; i < given.size_count; ++i)
    callable.sizes[text_or(given.size_names[i], "")] = given.sizes[i];
  return callable;
}

void write_timing(const Timing& timing, const TimeRatio& ratio, rl_timing& out) {
  out.count = timing.count;
  out.median_ms = timing.median_ms;
  out.median_low_ms = timing.median_low_ms;
  out.median_high_ms = timing.median_high_ms;
  out.mean_ms = timing.mean_ms;
  out.std_ms = timing.std_ms;
  out.min_ms = timing.min_ms;
  out.max_ms = timing.max_ms;
  out.p95_ms = timing.p95_ms;
  out.p99_ms = timing.p99_ms;
  out.flops_per_s = timing.flops_per_s;
  out.bytes_per_s = timing.bytes_per_s;
  out.ratio = ratio.median;
  out.ratio_low = ratio.low;
  out.ratio_high = ratio.high;
  if (out.samples_ms != nullptr)
    std::copy_n(timing.samples_ms.begin(), std::min(timing.samples_ms.size(), out.sample_capacity),
                out.samples_ms);
}

}  // namespace
}  // namespace ridgeline

extern "C" rl_status rl_measure(const rl_measure_params* params, rl_timing* timings) {
  using namespace ridgeline;
  return guarded([&] {
    const rl_measure_params given = read_params(params, "rl_measure_params");
    if (given.callable_count == 0 || given.callables == nullptr)
      throw invalid("there is nothing to measure", "pass a callable");
    if (timings == nullptr) throw invalid("timings is null", "pass one for each callable");
    std::vector<Callable> callables;
    for (size_t i = 0; i < given.callable_count; ++i) {
      if (timings[i].size != sizeof(rl_timing))
        throw invalid(fmt::format("timings[{}].size is {}, expected {}", i, timings[i].size,
                                  sizeof(rl_timing)),
                      "set it to sizeof of the struct");
      callables.push_back(read_callable(given.callables[i]));
    }
    Harness harness({.study = text_or(given.study, "own"),
                     .results = text_or(given.results, ""),
                     .warmups = given.warmups,
                     .iterations = given.iterations,
                     .time_budget_s = given.time_budget_s,
                     .run = given.run});
    const Turns turns = harness.measure_in_turns(callables);
    for (size_t i = 0; i < given.callable_count; ++i)
      write_timing(turns.timings[i], turns.ratios[i], timings[i]);
  });
}
