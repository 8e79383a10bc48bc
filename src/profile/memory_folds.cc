// What a memory timeline adds up to: the peak, the largest tensors, stairs, a track over time.
#include <algorithm>
#include <unordered_map>

#include "graph/scope.h"
#include "profile/memory_timeline.h"

namespace ridgeline {

std::vector<LiveTensor> alive_at(const MemoryTimeline& timeline, size_t event) {
  std::unordered_map<uint32_t, size_t> alive;
  for (size_t i = 0; i <= event && i < timeline.events.size(); ++i) {
    const MemoryEvent& each = timeline.events[i];
    if (each.is_allocation)
      alive[each.tensor] = i;
    else
      alive.erase(each.tensor);
  }
  std::vector<LiveTensor> found;
  for (const auto& [tensor, at] : alive) found.push_back({tensor, at});
  std::ranges::sort(found, [&](const LiveTensor& a, const LiveTensor& b) {
    const Bytes left = timeline.tensors[a.tensor].bytes, right = timeline.tensors[b.tensor].bytes;
    return left != right ? left > right : a.allocated_at < b.allocated_at;
  });
  return found;
}

std::vector<uint32_t> largest_tensors(const MemoryTimeline& timeline, size_t most) {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < timeline.tensors.size(); ++i)
    if (timeline.tensors[i].op != info(Op::input).name) found.push_back(i);
  std::ranges::stable_sort(found, [&](uint32_t a, uint32_t b) {
    return timeline.tensors[a].bytes > timeline.tensors[b].bytes;
  });
  found.resize(std::min(most, found.size()));
  return found;
}

std::vector<MemoryStair> memory_stairs(const MemoryTimeline& timeline) {
  std::vector<MemoryStair> stairs;
  Bytes inputs;
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const MemoryEvent& event = timeline.events[i];
    const MemoryTensor& tensor = timeline.tensors[event.tensor];
    if (tensor.op == info(Op::input).name) inputs = event.live;
    const std::string_view layer = layer_scope(tensor.scope);
    if (!event.is_allocation || tensor.phase != "forward" || layer.empty()) continue;
    if (stairs.empty() || stairs.back().layer != layer)
      stairs.push_back({.layer = std::string(layer), .live = {}, .kept = {}});
    stairs.back().event = i;
  }
  // A layer is left when the next one begins, after its last releases.
  Bytes before = inputs;
  for (size_t i = 0; i < stairs.size(); ++i) {
    MemoryStair& stair = stairs[i];
    while (stair.event + 1 < timeline.events.size() &&
           !timeline.events[stair.event + 1].is_allocation)
      ++stair.event;
    stair.live = timeline.events[stair.event].live;
    stair.kept = stair.live - before;
    before = stair.live;
  }
  return stairs;
}

CounterTrack memory_track(const MemoryTimeline& timeline, const Profile& profile) {
  std::unordered_map<size_t, int64_t> begins, ends;  // of kernels in the last step
  const auto last = static_cast<uint32_t>(profile.steps.size()) - 1;
  for (const Invocation& each : profile.invocations)
    if (each.step == last && each.kernel != kNobody) {
      const size_t number = profile.kernels[each.kernel].number;
      begins.try_emplace(number, each.work.begin_ns);
      ends[number] = each.work.end_ns;
    }
  CounterTrack track{.name = "memory", .series = "bytes", .points = {}};
  int64_t at = profile.steps.empty() ? 0 : profile.steps.back().begin_ns;
  for (const MemoryEvent& event : timeline.events) {
    const auto& times = event.is_allocation ? begins : ends;
    if (const auto found = times.find(event.kernel); found != times.end())
      at = std::max(at, found->second);
    const auto value = static_cast<double>(event.live.count);
    if (!track.points.empty() && track.points.back().at_ns == at)
      track.points.back().value = value;
    else
      track.points.push_back({at, value});
  }
  return track;
}

}  // namespace ridgeline
