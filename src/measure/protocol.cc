#include "measure/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "measure/turns.h"

namespace ridgeline {
namespace {

void check(bool holds, std::string_view name, double actual, std::string_view expected) {
  if (!holds)
    throw Error(ErrorKind::usage, fmt::format("{} is {}: expected {}", name, actual, expected));
}

void check(const Protocol& p) {
  const auto within = [](int value, int low) { return value >= low && value <= kMaxIterations; };
  const std::string upto = fmt::format("to {}", kMaxIterations);
  check(within(p.warmups, 0), "the number of warm-ups", p.warmups, "0 " + upto);
  check(within(p.iterations, 1), "the number of iterations", p.iterations, "1 " + upto);
  check(within(p.min_iterations, 1), "the least number of iterations", p.min_iterations,
        "1 " + upto);
  check(p.time_budget_s >= 0 && std::isfinite(p.time_budget_s), "the time budget", p.time_budget_s,
        "seconds, or 0 for a fixed number of iterations");
  check(p.target_precision > 0 && p.target_precision < 1, "the target precision",
        p.target_precision, "a fraction such as 0.01");
}

// The state of one measurement.
class Sampler {
 public:
  Sampler(const Protocol& protocol, const std::vector<std::string>& phases,
          const TimedIteration& iteration, const MeasureHooks& hooks)
      : protocol_(protocol), iteration_(iteration), hooks_(hooks), phase_ms_(phases.size()) {
    for (const std::string& phase : phases) series_.push_back({phase, {}, {}});
    start_s_ = now_s();
  }

  bool interrupted() const { return hooks_.interrupted && hooks_.interrupted(); }
  bool has_budget() const { return protocol_.time_budget_s > 0; }
  double elapsed_s() const { return now_s() - start_s_; }

  void warm_up() {
    run_once();
    ++warmups_;
  }

  bool warm() const {
    if (protocol_.warmups == 0) return true;
    const bool half_spent =
        has_budget() && warmups_ > 0 && elapsed_s() > protocol_.time_budget_s / 2;
    const bool done = warmups_ >= protocol_.warmups &&
                      (elapsed_s() >= protocol_.min_warmup_s || warmups_ >= kMaxIterations);
    return done || half_spent;
  }

  void sample() {
    run_once();
    for (size_t i = 0; i < series_.size(); ++i) series_[i].samples_ms.push_back(phase_ms_[i]);
    ++iterations_;
  }

  std::optional<StoppingRule> stop() {
    if (!has_budget()) {
      if (iterations_ >= protocol_.iterations) return StoppingRule::iterations_done;
      return std::nullopt;
    }
    if (iterations_ < protocol_.min_iterations) return std::nullopt;
    if (precise_enough()) return StoppingRule::precision_reached;
    if (elapsed_s() >= protocol_.time_budget_s) return StoppingRule::budget_spent;
    if (iterations_ >= kMaxIterations) return StoppingRule::sample_cap;
    return std::nullopt;
  }

  // The last `count` samples of every phase.
  std::vector<std::vector<double>> latest(int count) const {
    std::vector<std::vector<double>> out;
    for (const Series& s : series_)
      out.emplace_back(s.samples_ms.end() - count, s.samples_ms.end());
    return out;
  }

  Measurement finish(StoppingRule rule) {
    for (Series& s : series_)
      if (!s.samples_ms.empty()) s.statistics = summarize(s.samples_ms);
    return {std::move(series_), {warmups_, iterations_, rule, elapsed_s()}};
  }

 private:
  double now_s() const { return hooks_.now_s ? hooks_.now_s() : monotonic_s(); }

  void run_once() {
    std::fill(phase_ms_.begin(), phase_ms_.end(), Statistics::kUnknown);
    iteration_(phase_ms_);
    for (size_t i = 0; i < phase_ms_.size(); ++i)
      if (!(phase_ms_[i] >= 0) || !std::isfinite(phase_ms_[i]))
        throw Error(ErrorKind::internal, fmt::format("phase '{}' took {} ms: expected a time",
                                                     series_[i].name, phase_ms_[i]));
  }

  // Tested whenever the number of samples has grown by a tenth: sorting after each one would cost
  // more than a short workload, and each extra test is another chance to stop too early.
  bool precise_enough() {
    if (iterations_ < next_look_) return false;
    next_look_ = iterations_ + std::max(1, iterations_ / 10);
    return std::all_of(series_.begin(), series_.end(), [&](const Series& s) {
      return relative_half_width(summarize(s.samples_ms)) <= protocol_.target_precision;
    });
  }

  const Protocol& protocol_;
  const TimedIteration& iteration_;
  const MeasureHooks& hooks_;
  std::vector<double> phase_ms_;
  std::vector<Series> series_;
  double start_s_ = 0;
  int warmups_ = 0;
  int iterations_ = 0;
  int next_look_ = 0;
};

// Takes samples when the leading program (turns.h) asks for them; warm-ups follow the protocol.
Measurement measure_in_turns(Sampler& sampler, const std::vector<std::string>& phases) {
  report_to_leader({.kind = TurnReport::Kind::measurement, .names = phases});
  while (true) {
    const Turn turn = wait_for_turn();
    if (turn.kind == Turn::Kind::stop) return sampler.finish(StoppingRule::iterations_done);
    while (turn.kind == Turn::Kind::warm_up && !sampler.warm() && !sampler.interrupted())
      sampler.warm_up();
    for (int i = 0; i < turn.count && !sampler.interrupted(); ++i) sampler.sample();
    if (sampler.interrupted()) return sampler.finish(StoppingRule::interrupted);
    report_to_leader({.kind = TurnReport::Kind::samples, .samples_ms = sampler.latest(turn.count)});
  }
}

}  // namespace

Measurement measure(const Protocol& protocol, const std::vector<std::string>& phases,
                    const TimedIteration& iteration, const MeasureHooks& hooks) {
  check(protocol);
  if (phases.empty()) throw Error(ErrorKind::internal, "a measurement without phases");
  Sampler sampler(protocol, phases, iteration, hooks);
  if (is_led()) return measure_in_turns(sampler, phases);
  while (!sampler.warm()) {
    if (sampler.interrupted()) return sampler.finish(StoppingRule::interrupted);
    sampler.warm_up();
  }
  if (hooks.warm) hooks.warm();
  while (true) {
    if (sampler.interrupted()) return sampler.finish(StoppingRule::interrupted);
    sampler.sample();
    if (const auto rule = sampler.stop()) return sampler.finish(*rule);
  }
}

}  // namespace ridgeline
