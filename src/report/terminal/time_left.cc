#include "report/terminal/time_left.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace ridgeline {
namespace {

// Weight of the assumption that expected seconds are right, as a fraction of the expected total.
constexpr double kTrustInExpected = 0.02;
// Weight of the factor of all parts in the factor of one part, in mean steps of that part.
constexpr double kStepsOfAll = 2;
// A step that is late is expected to take longer by this fraction of its lateness.
constexpr double kOfLateness = 0.5;
// Time constant with which the shown value follows the estimate, as a fraction of the time spent or
// left, whichever is less.
constexpr double kPace = 0.15;
constexpr double kLeastPaceS = 2;

}  // namespace

size_t TimeLeft::add_part(std::vector<double> expected) {
  parts_.emplace_back();
  replace_part(parts_.size() - 1, std::move(expected));
  return parts_.size() - 1;
}

void TimeLeft::replace_part(size_t part, std::vector<double> expected) {
  parts_[part].clear();
  for (const double each : expected)
    parts_[part].push_back({.expected = std::isfinite(each) ? std::max(0.0, each) : 0});
}

void TimeLeft::begin(Place place, double now_s) {
  if (is_running(place)) return;
  end(now_s);
  // Earlier steps that never began count as ended, in no time.
  std::vector<Step>& part = parts_.at(place.part);
  for (size_t i = 0; i < place.step; ++i)
    if (!part.at(i).took_s) part[i].took_s = 0;
  if (!has_begun_) first_s_ = now_s;
  has_begun_ = true;
  running_ = place;
  begun_s_ = now_s;
}

bool TimeLeft::is_running(Place place) const {
  return running_ && running_->part == place.part && running_->step == place.step;
}

void TimeLeft::end(double now_s) {
  if (running_) parts_.at(running_->part).at(running_->step).took_s = now_s - begun_s_;
  running_.reset();
}

void TimeLeft::skip(Place place) {
  parts_.at(place.part).at(place.step) = {.expected = 0, .took_s = 0};
}

size_t TimeLeft::steps() const {
  size_t count = 0;
  for (const auto& part : parts_) count += part.size();
  return count;
}

size_t TimeLeft::number(Place place) const {
  size_t count = place.step + 1;
  for (size_t part = 0; part < place.part; ++part) count += parts_[part].size();
  return count;
}

std::optional<double> TimeLeft::learnt(double now_s) const {
  // Sums over steps that have ended: expected and actual time.
  struct Sums {
    double expected = 0, took_s = 0;
    void add(double more, double more_s) {
      expected += more;
      took_s += more_s;
    }
  };
  Sums all;
  std::vector<Sums> ended(parts_.size());
  std::vector<double> whole(parts_.size()), waiting(parts_.size());
  for (size_t part = 0; part < parts_.size(); ++part)
    for (size_t i = 0; i < parts_[part].size(); ++i) {
      const Step& step = parts_[part][i];
      whole[part] += step.expected;
      if (step.took_s)
        ended[part].add(step.expected, *step.took_s);
      else if (!is_running({part, i}))
        waiting[part] += step.expected;
    }
  for (const Sums& part : ended) all.add(part.expected, part.took_s);
  const double trust = unit_ == Unit::seconds
                           ? kTrustInExpected * std::accumulate(whole.begin(), whole.end(), 0.0)
                           : 0;
  const auto factor_of_all = [&] { return (all.took_s + trust) / (all.expected + trust); };
  const auto factor = [&](size_t part) {
    const double borrowed =
        kStepsOfAll * whole[part] / static_cast<double>(std::max<size_t>(1, parts_[part].size()));
    return ended[part].expected + borrowed > 0 ? (ended[part].took_s + factor_of_all() * borrowed) /
                                                     (ended[part].expected + borrowed)
                                               : factor_of_all();
  };
  double left = 0;
  if (running_) {
    const double expected = parts_[running_->part][running_->step].expected;
    const double spent_s = now_s - begun_s_, late_s = spent_s - factor(running_->part) * expected;
    left = std::max(-late_s, kOfLateness * late_s);
    if (late_s > 0) {  // the factors count it as ended
      ended[running_->part].add(expected, spent_s);
      all.add(expected, spent_s);
    }
  }
  if (!(all.expected + trust > 0)) return std::nullopt;
  for (size_t part = 0; part < parts_.size(); ++part) left += factor(part) * waiting[part];
  return left;
}

std::optional<double> TimeLeft::seconds(double now_s) {
  bool any_ended = false;
  for (const auto& part : parts_)
    for (const Step& step : part) any_ended = any_ended || step.took_s.value_or(0) > 0;
  const std::optional<double> target = any_ended ? learnt(now_s) : std::nullopt;
  if (!target || !std::isfinite(*target)) return std::nullopt;
  if (!shown_s_) {
    shown_s_ = target;
  } else {
    const double since = now_s - shown_at_s_;
    const double counted_down = std::max(0.0, *shown_s_ - since);
    const double slowness_s = std::max(kLeastPaceS, kPace * std::min(*target, now_s - first_s_));
    shown_s_ = counted_down + (1 - std::exp(-since / slowness_s)) * (*target - counted_down);
  }
  shown_at_s_ = now_s;
  return shown_s_;
}

double TimeLeft::share_done(double now_s) {
  const std::optional<double> left = seconds(now_s);
  const double spent = has_begun_ ? now_s - first_s_ : 0;
  if (left && spent + *left > 0) share_ = std::max(share_, spent / (spent + *left));
  return share_;
}

}  // namespace ridgeline
