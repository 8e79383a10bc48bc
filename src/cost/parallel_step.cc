#include "cost/parallel_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/sort_by.h"

namespace ridgeline {
namespace {

// A stream of computation and one of communication, which run concurrently except for explicit
// waits.
class Timeline {
 public:
  Timeline(const StepTraffic& traffic, const CollectiveTime& time_of)
      : traffic_(traffic), time_of_(time_of) {}

  double compute(double seconds, double not_before = 0) {
    computed_ = std::max(computed_, not_before) + seconds;
    result_.compute_s += seconds;
    return computed_;
  }

  double communicate(CollectiveKind kind, double bytes, double not_before) {
    const double seconds = time_of_(kind, bytes);
    communicated_ = std::max(communicated_, not_before) + seconds;
    result_.communication_s += seconds;
    ++result_.collectives;
    result_.sent_bytes += bus_factor(kind, traffic_.ranks) * bytes;
    return communicated_;
  }

  void join() { computed_ = std::max(computed_, communicated_); }
  double now() const { return computed_; }

  PredictedStep finish() {
    join();
    result_.step_s = computed_;
    return result_;
  }

 private:
  const StepTraffic& traffic_;
  const CollectiveTime& time_of_;
  double computed_ = 0, communicated_ = 0;  // when each stream becomes idle
  PredictedStep result_;
};

void replicated_step(const StepTimes& times, const StepTraffic& traffic, Timeline& line) {
  const ParallelStrategyInfo& strategy = info(traffic.strategy);
  const int micro_batches = std::max(traffic.micro_batches, 1);
  const double micro_backward_s = times.backward_s / micro_batches;
  line.compute(times.forward_s + times.backward_s);
  const double backward_begins = line.now() - micro_backward_s;  // of the last micro-batch
  const CollectiveKind kind =
      strategy.shards_moments ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  for (const GradientBucket& bucket : traffic.gradients)
    line.communicate(
        kind, bucket.bytes,
        strategy.overlaps ? backward_begins + bucket.ready * micro_backward_s : line.now());
  line.join();
  line.compute(times.optimizer_s / (strategy.shards_moments ? traffic.ranks : 1));
  if (!strategy.shards_moments) return;
  for (const GradientBucket& bucket : traffic.gradients)
    line.communicate(CollectiveKind::all_gather, bucket.bytes, line.now());
}

// A unit is gathered while the previous one computes; at most two are gathered at a time.
class ShardedPass {
 public:
  ShardedPass(const StepTraffic& traffic, Timeline& line) : traffic_(traffic), line_(line) {
    for (const GradientBucket& unit : traffic.gradients) total_ += unit.bytes;
  }

  void forward(double seconds) {
    const std::vector<GradientBucket> units(traffic_.gradients.rbegin(), traffic_.gradients.rend());
    pass(units, seconds, false);
  }
  void backward(double seconds, bool scatters) { pass(traffic_.gradients, seconds, scatters); }

 private:
  void pass(const std::vector<GradientBucket>& units, double seconds, bool scatters) {
    double gathered = units.empty() ? 0 : gather(units.front(), line_.now());
    for (size_t i = 0; i < units.size(); ++i) {
      const double is_there = gathered;
      // The next gather may start as soon as the previous unit has been computed.
      if (i + 1 < units.size()) gathered = gather(units[i + 1], line_.now());
      const double done =
          line_.compute(total_ > 0 ? seconds * units[i].bytes / total_ : 0, is_there);
      if (scatters) line_.communicate(CollectiveKind::reduce_scatter, units[i].bytes, done);
    }
  }

  double gather(const GradientBucket& unit, double not_before) {
    return line_.communicate(CollectiveKind::all_gather, unit.bytes, not_before);
  }

  const StepTraffic& traffic_;
  Timeline& line_;
  double total_ = 0;
};

void fully_sharded_step(const StepTimes& times, const StepTraffic& traffic, Timeline& line) {
  const int micro_batches = std::max(traffic.micro_batches, 1);
  ShardedPass pass(traffic, line);
  for (int i = 0; i < micro_batches; ++i) {
    pass.forward(times.forward_s / micro_batches);
    pass.backward(times.backward_s / micro_batches, i + 1 == micro_batches);
  }
  line.join();
  line.compute(times.optimizer_s / traffic.ranks);
}

}  // namespace

std::vector<GradientBucket> buckets_of(std::span<const double> tensor_bytes, double cap_bytes) {
  std::vector<GradientBucket> buckets;
  const double total = std::accumulate(tensor_bytes.begin(), tensor_bytes.end(), 0.0);
  double so_far = 0;
  for (const double bytes : tensor_bytes) {
    so_far += bytes;
    if (buckets.empty() || buckets.back().bytes >= bucket_cap(buckets.size() - 1, cap_bytes))
      buckets.push_back({});
    buckets.back().bytes += bytes;
    buckets.back().ready = total > 0 ? so_far / total : 1;
  }
  return buckets;
}

PredictedStep predict_step(const StepTimes& times, const StepTraffic& traffic,
                           const CollectiveTime& time_of) {
  Timeline line(traffic, time_of);
  if (traffic.ranks < 2)
    line.compute(times.forward_s + times.backward_s + times.optimizer_s);
  else if (info(traffic.strategy).shards_parameters)
    fully_sharded_step(times, traffic, line);
  else
    replicated_step(times, traffic, line);
  return line.finish();
}

PredictedStep predict_step(double compute_s, std::vector<StepCollective> collectives, int ranks,
                           const CollectiveTime& time_of) {
  PredictedStep result{.compute_s = compute_s, .collectives = static_cast<int>(collectives.size())};
  sort_by(collectives, &StepCollective::started_s);
  // When each collective is done, by when its result is read. A wait delays all collectives that
  // start after it.
  std::multimap<double, double> done_by_need;
  double waited = 0, communicated = 0;
  const auto wait_until = [&](double moment) {
    while (!done_by_need.empty() && done_by_need.begin()->first <= moment) {
      const auto [needed, done] = *done_by_need.begin();
      waited = std::max(waited, done - needed);
      done_by_need.erase(done_by_need.begin());
    }
  };
  for (const StepCollective& each : collectives) {
    wait_until(each.started_s);
    const double seconds = time_of(each.kind, each.bytes);
    communicated = std::max(communicated, each.started_s + waited) + seconds;
    result.communication_s += seconds;
    result.sent_bytes += bus_factor(each.kind, ranks) * each.bytes;
    done_by_need.emplace(std::max(each.needed_s, each.started_s), communicated);
  }
  wait_until(std::numeric_limits<double>::infinity());
  result.step_s = compute_s + waited;
  return result;
}

double best_bucket_bytes(double bytes, double bytes_per_s, double overhead_s) {
  return std::min(bytes, std::sqrt(bytes * bytes_per_s * overhead_s));
}

}  // namespace ridgeline
