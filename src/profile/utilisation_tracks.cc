// Adds hardware counters of a GPU to a trace, as counter tracks.
#include <fmt/format.h>

#include "profile/trace.h"

namespace ridgeline {
namespace {

struct Shown {
  const char *name, *series;
  std::optional<double> UtilisationSample::*value;
  double unit;
};
constexpr Shown kShown[] = {
    {"SM active", "%", &UtilisationSample::sm_active, 1e-2},
    {"tensor pipe active", "%", &UtilisationSample::tensor_active, 1e-2},
    {"DRAM", "GB/s", &UtilisationSample::dram_bytes_per_s, 1e9},
    {"SM clock", "MHz", &UtilisationSample::sm_clock_hz, 1e6},
};

}  // namespace

void add_utilisation(TraceOptions& options, const Utilisation& seen, int ordinal, int64_t offset_ns,
                     const Profile& profile) {
  std::vector<UtilisationSample> samples = seen.samples;
  if (samples.empty()) samples.push_back(seen);
  const int64_t shown_ns =
      profile.steps.empty() ? 0 : profile.steps.back().end_ns - profile.steps.front().begin_ns;
  const int64_t until_ns = samples.front().begin_ns + shown_ns;
  while (samples.size() > 1 && samples.back().begin_ns >= until_ns) samples.pop_back();
  const int64_t begin_ns = samples.front().begin_ns + offset_ns,
                end_ns = samples.back().end_ns + offset_ns;
  for (const Shown& shown : kShown) {
    CounterTrack track{.name = shown.name,
                       .series = shown.series,
                       .points = {},
                       .process = fmt::format("GPU {} Counters", ordinal)};
    for (const UtilisationSample& sample : samples)
      if (const auto value = sample.*shown.value)
        track.points.push_back({sample.begin_ns + offset_ns, *value / shown.unit});
    if (track.points.empty()) continue;
    track.points.push_back({end_ns, 0});
    options.counters.push_back(std::move(track));
  }
  options.marks.push_back(
      {fmt::format("the same steps in a loop, with counters by {}", seen.source), begin_ns,
       end_ns});
}

}  // namespace ridgeline
