// The measurement protocol: warm-ups, then a fixed number of samples or a time budget.
//
//   Measurement m = measure({.time_budget_s = 2}, {"forward", "backward"},
//                           [&](std::span<double> phase_ms) {
//                             phase_ms[0] = time_forward_ms();
//                             phase_ms[1] = time_backward_ms();
//                           });
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "measure/statistics.h"

namespace ridgeline {

struct Protocol {
  int warmups = 10;  // at least; 0: none
  // Warm-ups also last at least this long: the scheduler migrates a thread away from a shared
  // processor only after several ticks, and until then a short row took three times as long.
  double min_warmup_s = 0.05;
  int iterations = 100;  // samples taken when there is no time budget

  // With a budget (seconds of wall time, warm-ups included; 0: none), sampling ends when the median
  // of every series is known to within `target_precision`, or when the budget is spent. Warm-ups
  // may use half of the budget; `min_iterations` samples are taken even beyond it, because a
  // confidence interval of the median and a verdict need them.
  double time_budget_s = 0;
  int min_iterations = kMinIntervalSamples;
  double target_precision = 0.01;
};

// The most samples of one measurement: a record holds all of them in a line of bounded length.
inline constexpr int kMaxIterations = 20'000;

enum class StoppingRule {
  iterations_done,
  precision_reached,
  budget_spent,
  sample_cap,
  interrupted
};

inline constexpr EnumNames<StoppingRule, StoppingRule::interrupted> kStoppingRules(
    "iterations_done", "precision_reached", "budget_spent", "sample_cap", "interrupted");

// How a measurement ran, for the record.
struct ProtocolFacts {
  int warmups = 0;
  int iterations = 0;
  StoppingRule stopping_rule = StoppingRule::iterations_done;
  double elapsed_s = 0;
  // Duration of the first call, in which a GPU compiles or loads code; set by the study.
  std::optional<double> first_run_s = {};

  bool operator==(const ProtocolFacts&) const = default;
};

struct Measurement {
  std::vector<Series> series;  // one per phase, in the order of the names given
  ProtocolFacts protocol;

  // An interrupted measurement holds the samples so far, if any, and must not be recorded.
  bool interrupted() const { return protocol.stopping_rule == StoppingRule::interrupted; }
};

// Runs one iteration and writes the time of each phase in milliseconds, by a clock of its choice.
using TimedIteration = std::function<void(std::span<double> phase_ms)>;

struct MeasureHooks {
  std::function<bool()> interrupted = {};  // polled before every iteration; empty: never
  std::function<void()> warm = {};         // called after the warm-ups, before the samples
  std::function<double()> now_s = {};      // the clock of the budget; empty: a monotonic clock
};

// Throws a usage error for values out of range; exceptions of `iteration` propagate.
Measurement measure(const Protocol& protocol, const std::vector<std::string>& phases,
                    const TimedIteration& iteration, const MeasureHooks& hooks = {});

}  // namespace ridgeline
