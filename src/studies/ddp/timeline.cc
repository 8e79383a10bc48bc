#include "studies/ddp/timeline.h"

#include <algorithm>

#include "base/clock.h"
#include "studies/ranks/tasks.h"

namespace ridgeline {

void SliceObserver::before(const KernelRun& run) {
  seen_.push_back({.name = run.graph.name({run.node, 0}),
                   .begin_ns = monotonic_ns(),
                   .began = device_.queued_work()});
}

void SliceObserver::after(const KernelRun&) {
  seen_.back().ended = device_.queued_work();
  seen_.back().end_ns = monotonic_ns();
}

RankTimeline SliceObserver::timeline(const std::vector<CollectiveRun>& collectives,
                                     int64_t began_ns) const {
  const auto time_of = [&](const EventRef& event, int64_t host_ns) {
    return (event ? event->span()->ended_ns : host_ns) - began_ns;
  };
  RankTimeline timeline;
  for (const Seen& each : seen_)
    timeline.computation.push_back({.name = each.name,
                                    .category = "kernel",
                                    .begin_ns = time_of(each.began, each.begin_ns),
                                    .end_ns = time_of(each.ended, each.end_ns)});
  for (const CollectiveRun& run : collectives) {
    timeline.communication.push_back({.name = run.name,
                                      .category = "collective",
                                      .begin_ns = run.began_ns - began_ns,
                                      .end_ns = run.ended_ns - began_ns});
    if (run.waited_ns > 0)
      timeline.computation.push_back({.name = "waits for " + run.name,
                                      .category = "wait",
                                      .begin_ns = run.needed_ns - began_ns,
                                      .end_ns = run.needed_ns + run.waited_ns - began_ns});
  }
  return timeline;
}

std::vector<RankTimeline> timelines_of_all(Communicator& communicator, const RankTimeline& mine) {
  const std::string text = to_json(mine).dump();
  const std::vector<double> lengths =
      all_gather_values(communicator, static_cast<double>(text.size()));
  const auto words = static_cast<size_t>(*std::ranges::max_element(lengths)) / sizeof(int32_t) + 1;
  std::string padded = text, all(words * sizeof(int32_t) * lengths.size(), ' ');
  padded.resize(words * sizeof(int32_t), ' ');
  communicator.run({.kind = CollectiveKind::all_gather,
                    .dtype = DType::i32,
                    .count = static_cast<int64_t>(words * lengths.size()),
                    .in = padded.data(),
                    .out = all.data()});
  std::vector<RankTimeline> timelines;
  for (size_t rank = 0; rank < lengths.size(); ++rank)
    timelines.push_back(
        rank_timeline(Json::parse(all.substr(rank * padded.size(), padded.size()))));
  return timelines;
}

}  // namespace ridgeline
