// Summaries of a memory timeline: tensors at the peak, largest tensors, stairs, a counter track.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_map>

#include "base/sort_by.h"
#include "graph/scope.h"
#include "profile/memory_timeline.h"

namespace ridgeline {
namespace {

bool is_input(const MemoryTensor& tensor) {
  return tensor.op == info(Op::input).name;
}

// Names from autodiff contain the number of their node: "matmul_123".
std::string name_of_any_layer(const MemoryTensor& tensor) {
  const std::string numbered = fmt::format("{}_{}", tensor.op, tensor.node);
  if (tensor.name.starts_with(numbered)) return tensor.op + tensor.name.substr(numbered.size());
  return scope_of_any_layer(tensor.name);
}

std::vector<TensorGroup> groups_of(const MemoryTimeline& timeline,
                                   std::span<const uint32_t> tensors) {
  std::vector<TensorGroup> groups;
  std::unordered_map<std::string, size_t> places;
  for (const uint32_t number : tensors) {
    MemoryTensor tensor = timeline.tensors[number];
    tensor.name = name_of_any_layer(tensor);
    tensor.scope = scope_of_any_layer(tensor.scope);
    const std::string key = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", tensor.name, tensor.scope,
                                        tensor.op, tensor.type, tensor.phase, tensor.bytes.count);
    const auto [place, is_new] = places.emplace(key, groups.size());
    if (is_new) groups.push_back({.of = std::move(tensor)});
    ++groups[place->second].count;
  }
  return groups;
}

}  // namespace

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

std::vector<TensorGroup> groups_at_peak(const MemoryTimeline& timeline) {
  std::vector<uint32_t> tensors;
  for (const LiveTensor& each : alive_at(timeline, timeline.peak_event))
    tensors.push_back(each.tensor);
  std::vector<TensorGroup> groups = groups_of(timeline, tensors);
  sort_by_falling(groups, &TensorGroup::total);
  return groups;
}

std::vector<TensorGroup> largest_tensors(const MemoryTimeline& timeline, size_t most) {
  std::vector<uint32_t> tensors;
  for (uint32_t i = 0; i < timeline.tensors.size(); ++i)
    if (!is_input(timeline.tensors[i])) tensors.push_back(i);
  std::vector<TensorGroup> groups = groups_of(timeline, tensors);
  sort_by_falling(groups, [](const TensorGroup& group) { return group.of.bytes; });
  groups.resize(std::min(most, groups.size()));
  return groups;
}

std::vector<size_t> telling_events(const MemoryTimeline& timeline, size_t most) {
  std::vector<size_t> found;
  const size_t begin = timeline.inputs > 0 ? timeline.inputs - 1 : 0, end = timeline.events.size();
  // Keeps the lowest and highest event of each stretch, and both ends.
  const size_t stretches = std::max<size_t>(most / 2, 2) - 1;
  const size_t length = end - begin <= most ? 1 : (end - begin + stretches - 1) / stretches;
  const auto live = [&](size_t event) { return timeline.events[event].live; };
  for (size_t first = begin; first < end; first += length) {
    const size_t last = std::min(first + length, end);
    size_t lowest = first, highest = first;
    for (size_t i = first; i < last; ++i) {
      if (live(i) < live(lowest)) lowest = i;
      if (live(i) > live(highest)) highest = i;
    }
    found.push_back(std::min(lowest, highest));
    if (lowest != highest) found.push_back(std::max(lowest, highest));
  }
  for (const size_t event : {begin, end - 1})
    if (event < end && std::ranges::find(found, event) == found.end()) found.push_back(event);
  std::ranges::sort(found);
  return found;
}

std::vector<MemoryStair> memory_stairs(const MemoryTimeline& timeline) {
  std::vector<MemoryStair> stairs;
  // Skips the inputs, which may have layers too: copies of parameters in 16 bits.
  for (size_t i = timeline.inputs; i < timeline.events.size(); ++i) {
    const MemoryEvent& event = timeline.events[i];
    const MemoryTensor& tensor = timeline.tensors[event.tensor];
    const std::string_view layer = layer_scope(tensor.scope);
    if (!event.is_allocation || event.phase != 0 || layer.empty()) continue;
    if (stairs.empty() || stairs.back().layer != layer)
      stairs.push_back({.layer = std::string(layer), .live = {}, .kept = {}});
    stairs.back().event = i;
  }
  // A layer ends with the releases that follow its last allocation.
  Bytes before = timeline.inputs > 0 ? timeline.events[timeline.inputs - 1].live : Bytes{};
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
  CounterTrack track{.name = "memory", .series = "bytes", .points = {}};
  const auto add = [&](int64_t at, Bytes live) {
    const auto value = static_cast<double>(live.count);
    if (!track.points.empty() && track.points.back().at_ns == at)
      track.points.back().value = value;
    else
      track.points.push_back({at, value});
  };
  std::vector<std::unordered_map<size_t, int64_t>> begins(profile.steps.size()), ends = begins;
  for (const Invocation& each : profile.invocations)
    if (each.step < profile.steps.size() && each.kernel != kNobody) {
      const size_t number = profile.kernels[each.kernel].number;
      begins[each.step].try_emplace(number, each.work.begin_ns);
      ends[each.step][number] = each.work.end_ns;
    }
  int64_t at = INT64_MIN;
  for (size_t step = 0; step < profile.steps.size(); ++step) {
    at = std::max(at, profile.steps[step].begin_ns);
    // At the beginning of a step only the inputs are live.
    if (timeline.inputs > 0) add(at, timeline.events[timeline.inputs - 1].live);
    for (size_t i = timeline.inputs; i < timeline.events.size(); ++i) {
      const MemoryEvent& event = timeline.events[i];
      const auto& times = event.is_allocation ? begins[step] : ends[step];
      if (const auto found = times.find(event.kernel); found != times.end())
        at = std::max(at, found->second);
      add(at, event.live);
    }
  }
  return track;
}

}  // namespace ridgeline
