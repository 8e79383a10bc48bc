#include "studies/ddp/forecast.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/sort_by.h"
#include "studies/ranks/tasks.h"

namespace ridgeline {
namespace {

constexpr int kWarmups = 2, kSamples = 5;
constexpr size_t kSizes = 3;  // timed per kind of collective

struct TimedSize {
  double bytes = 0, seconds = 0;
};
using TimesByKind = std::map<CollectiveKind, std::vector<TimedSize>>;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double slowest(Communicator& host, double mine) {
  return std::ranges::max(all_gather_values(host, mine));
}

// Interpolates linearly between timed sizes; above them, time is proportional to size.
double time_of_size(const std::vector<TimedSize>& sizes, double bytes) {
  const auto above =
      std::ranges::find_if(sizes, [&](const TimedSize& each) { return each.bytes >= bytes; });
  if (above == sizes.end()) return sizes.back().seconds * bytes / sizes.back().bytes;
  if (above == sizes.begin()) return above->seconds;
  const TimedSize& below = *(above - 1);
  const double part = (bytes - below.bytes) / (above->bytes - below.bytes);
  return below.seconds + part * (above->seconds - below.seconds);
}

// The smallest, the middle and the largest size of the step's collectives, in elements.
std::vector<int64_t> sizes_to_time(const std::vector<CollectiveRun>& runs, CollectiveKind kind) {
  std::set<int64_t> counts;
  for (const CollectiveRun& run : runs)
    if (run.kind == kind) counts.insert(run.bytes / info(run.dtype).size);
  const std::vector<int64_t> all(counts.begin(), counts.end());
  if (all.size() <= kSizes) return all;
  return {all.front(), all[all.size() / 2], all.back()};
}

TimesByKind time_collectives(Communicator& host, Communicator& collectives, Device& device,
                             const std::vector<CollectiveRun>& runs) {
  TimesByKind times;
  int64_t most = 0;
  for (const CollectiveRun& run : runs) most = std::max(most, run.bytes);
  const Allocation in = device.ledger().allocate(Bytes{most}, "a collective's operand");
  const Allocation out = device.ledger().allocate(Bytes{most}, "a collective's result");
  for (const Allocation* each : {&in, &out})
    device.clear({each->data(), DType::i32, {most / info(DType::i32).size}, {1}});
  device.synchronize();
  for (const CollectiveRun& run : runs) {
    std::vector<TimedSize>& of_kind = times[run.kind];
    if (!of_kind.empty()) continue;
    for (const int64_t count : sizes_to_time(runs, run.kind)) {
      const bool in_place = run.kind == CollectiveKind::all_reduce;
      const Collective what{.kind = run.kind,
                            .dtype = run.dtype,
                            .count = count,
                            .in = in.data(),
                            .out = in_place ? in.data() : out.data()};
      std::vector<double> samples;
      for (int i = 0; i < kWarmups + kSamples; ++i) {
        host.barrier();
        const int64_t began = monotonic_ns();
        collectives.start(what)->wait();
        const double seconds = slowest(host, static_cast<double>(monotonic_ns() - began) / 1e9);
        if (i >= kWarmups) samples.push_back(seconds);
      }
      of_kind.push_back({static_cast<double>(what.bytes()), median(std::move(samples))});
    }
  }
  return times;
}

struct SilentSample {
  double seconds = 0;     // of this rank
  double together_s = 0;  // until all ranks are done
  std::vector<CollectiveRun> collectives;
  int64_t began_ns = 0;
};

// The median sample by the time until all ranks are done, or, if `alone`, of rank 0 while the
// others wait. Ranks that share processors may take turns, so that one is done long before the
// last.
SilentSample run_silently(Communicator& host, const SilentStep& silent, bool alone) {
  std::vector<SilentSample> samples;
  for (int i = 0; i < kWarmups + kSamples; ++i) {
    SilentSample sample;
    host.barrier();
    sample.began_ns = monotonic_ns();
    if (!alone || host.rank() == 0) sample.seconds = silent.run_s();
    if (!alone) host.barrier();
    const double mine = static_cast<double>(monotonic_ns() - sample.began_ns) / 1e9;
    sample.together_s = slowest(host, alone ? sample.seconds : mine);
    sample.collectives = silent.collectives();
    if (i >= kWarmups) samples.push_back(std::move(sample));
  }
  sort_by(samples, &SilentSample::together_s);
  return std::move(samples[samples.size() / 2]);
}

}  // namespace

double SharedHost::sharing() const {
  if (threads == 0) return 1;
  const auto load = [&](int of_rank) {
    return std::max(1.0, static_cast<double>(ranks * of_rank) / processors);
  };
  return load(threads + 1) / load(threads);
}

StepForecast forecast_step(Communicator& host, Communicator& collectives, Device& device,
                           const SilentStep& silent, const SharedHost& shared) {
  StepForecast forecast{.step = {}, .sharing = shared.sharing()};
  forecast.compute_alone_s = run_silently(host, silent, true).together_s;
  const SilentSample mine = run_silently(host, silent, false);
  const double compute_s = mine.together_s;
  const double stretched = compute_s / mine.seconds;
  std::vector<StepCollective> of_step;
  for (const CollectiveRun& run : mine.collectives) {
    const auto seconds_into_step = [&](int64_t ns) {
      return stretched * static_cast<double>(ns - mine.began_ns) / 1e9;
    };
    of_step.push_back({.kind = run.kind,
                       .bytes = static_cast<double>(run.bytes),
                       .started_s = seconds_into_step(run.started_ns),
                       .needed_s = seconds_into_step(run.needed_ns)});
  }
  const TimesByKind times = time_collectives(host, collectives, device, mine.collectives);
  forecast.step = predict_step(
      compute_s, std::move(of_step), host.size(),
      [&](CollectiveKind kind, double bytes) { return time_of_size(times.at(kind), bytes); });
  const double hidden = forecast.step.communication_s - forecast.step.exposed_s();
  forecast.step.step_s += std::max(hidden, 0.0) * (forecast.sharing - 1);
  return forecast;
}

}  // namespace ridgeline
