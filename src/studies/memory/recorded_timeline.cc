#include "studies/memory/recorded_timeline.h"

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "base/sort_by.h"
#include "measure/record_values.h"

namespace ridgeline {
namespace {

constexpr size_t kMostPoints = 320;  // as many as a chart can resolve
constexpr size_t kMostTensors = 24, kMostStairs = 512, kMostPhases = 16;
constexpr size_t kLongestName = 120;

std::string plain(std::string_view text) {
  return printable(text, kLongestName);
}

RecordedTimeline::Tensors tensors_of(const TensorGroup& group) {
  const MemoryTensor& of = group.of;
  return {.name = plain(of.name),
          .type = plain(of.type),
          .scope = plain(of.scope),
          .op = plain(of.op),
          .phase = plain(of.phase),
          .count = static_cast<int64_t>(group.count),
          .each = of.bytes};
}

std::vector<RecordedTimeline::Tensors> first_of(const std::vector<TensorGroup>& groups) {
  std::vector<RecordedTimeline::Tensors> found;
  for (const TensorGroup& group : groups)
    if (found.size() < kMostTensors) found.push_back(tensors_of(group));
  return found;
}

std::string in_words(const MemoryTensor& tensor) {
  std::string text = plain(tensor.name);
  if (!tensor.type.empty()) text += " " + plain(tensor.type);
  if (!tensor.scope.empty()) text += " of " + plain(tensor.scope);
  return text + " by " + plain(tensor.op);
}

void add_phases(const MemoryTimeline& timeline, RecordedTimeline& into) {
  uint32_t before = kNobody;
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const MemoryEvent& event = timeline.events[i];
    if (event.phase == kNobody) continue;
    if (event.phase != before && into.phases.size() < kMostPhases)
      into.phases.push_back({timeline.phases[event.phase], static_cast<int64_t>(i), {}});
    before = event.phase;
    into.phases.back().peak = std::max(into.phases.back().peak, event.live);
  }
}

Json to_json(const RecordedTimeline::Tensors& tensors) {
  return {{"name", tensors.name},       {"type", tensors.type},   {"scope", tensors.scope},
          {"op", tensors.op},           {"phase", tensors.phase}, {"count", tensors.count},
          {"bytes", tensors.each.count}};
}

Json to_json(const std::vector<RecordedTimeline::Tensors>& list) {
  Json json = Json::array();
  for (const RecordedTimeline::Tensors& each : list) json.push_back(to_json(each));
  return json;
}

// Truncates to an integer of at most 60 bits; 0 if `number` is not finite.
int64_t whole(double number) {
  constexpr double kMost = 0x1p60;
  return std::isfinite(number) ? static_cast<int64_t>(std::clamp(number, -kMost, kMost)) : 0;
}
int64_t whole_in(const Json& json, const char* name) {
  return whole(number_in(json, name).value_or(0));
}
Bytes bytes_in(const Json& json, const char* name) {
  return {std::max<int64_t>(whole_in(json, name), 0)};
}

RecordedTimeline::Tensors read_tensors(const Json& json) {
  constexpr int64_t kMostAlike = 1 << 20, kMostBytes = int64_t{1} << 42;  // no overflow in total()
  const auto text = [&](const char* key) { return plain(text_of(json, key)); };
  return {.name = text("name"),
          .type = text("type"),
          .scope = text("scope"),
          .op = text("op"),
          .phase = text("phase"),
          .count = std::clamp<int64_t>(whole_in(json, "count"), 0, kMostAlike),
          .each = {std::min(bytes_in(json, "bytes").count, kMostBytes)}};
}

// Calls `read` with the first `most` elements of a list.
template <class Read>
void for_each_in(const Json& json, const char* key, size_t most, const Read& read) {
  const Json* list = json.find_key(key);
  if (!list || !list->is_array()) return;
  for (const Json& each : *list) {
    if (most-- == 0) return;
    read(each);
  }
}

std::optional<RecordedTimeline::Point> read_point(const Json& json) {
  if (!json.is_array() || json.size() != 5) return std::nullopt;
  for (size_t i = 0; i < 4; ++i)
    if (!json[i].is_number()) return std::nullopt;
  if (!json[4].is_string()) return std::nullopt;
  const auto number = [&](size_t i) { return whole(json[i].get<double>()); };
  return RecordedTimeline::Point{.event = number(0),
                                 .live = {number(1)},
                                 .predicted = {number(2)},
                                 .change = {number(3)},
                                 .tensor = printable(json[4].text(), 4 * kLongestName)};
}

}  // namespace

RecordedTimeline recorded(const MemoryTimeline& timeline, bool is_measured) {
  RecordedTimeline result{.is_measured = is_measured,
                          .events = static_cast<int64_t>(timeline.events.size()),
                          .peak = timeline.peak(),
                          .gaps = timeline.gaps(),
                          .held = first_of(groups_at_peak(timeline)),
                          .largest = first_of(largest_tensors(timeline, kMostTensors))};
  if (timeline.events.empty()) return result;
  if (timeline.inputs > 0) result.inputs = timeline.events[timeline.inputs - 1].live;
  result.at_peak =
      tensors_of({timeline.tensors[timeline.events[timeline.peak_event].tensor], /*count=*/1});
  for (const MemoryTensor& tensor : timeline.tensors)
    if (!result.residual && tensor.name.ends_with("ffn_residual"))
      result.residual = tensors_of({tensor, /*count=*/1});
  add_phases(timeline, result);
  for (const size_t i : telling_events(timeline, kMostPoints)) {
    const MemoryEvent& event = timeline.events[i];
    const MemoryTensor& tensor = timeline.tensors[event.tensor];
    result.points.push_back({.event = static_cast<int64_t>(i),
                             .live = event.live,
                             .predicted = event.predicted_live,
                             .change = event.is_allocation ? tensor.bytes : Bytes{} - tensor.bytes,
                             .tensor = in_words(tensor)});
  }
  for (const MemoryStair& stair : memory_stairs(timeline))
    if (result.stairs.size() < kMostStairs)
      result.stairs.push_back({plain(stair.layer), stair.live, stair.kept});
  return result;
}

Json to_json(const RecordedTimeline& timeline) {
  Json json = {{"measured", timeline.is_measured},      {"events", timeline.events},
               {"peak_bytes", timeline.peak.count},     {"gaps_bytes", timeline.gaps.count},
               {"inputs_bytes", timeline.inputs.count}, {"at_peak", to_json(timeline.at_peak)}};
  if (timeline.residual) json["residual"] = to_json(*timeline.residual);
  Json phases = Json::array(), points = Json::array(), stairs = Json::array();
  for (const RecordedTimeline::Phase& phase : timeline.phases)
    phases.push_back({{"name", phase.name},
                      {"first_event", phase.first_event},
                      {"peak_bytes", phase.peak.count}});
  for (const RecordedTimeline::Point& point : timeline.points)
    points.push_back(Json::array(
        {point.event, point.live.count, point.predicted.count, point.change.count, point.tensor}));
  for (const RecordedTimeline::Stair& stair : timeline.stairs)
    stairs.push_back({{"layer", stair.layer},
                      {"live_bytes", stair.live.count},
                      {"kept_bytes", stair.kept.count}});
  json["phases"] = std::move(phases);
  json["points"] = std::move(points);
  json["held"] = to_json(timeline.held);
  json["largest"] = to_json(timeline.largest);
  json["stairs"] = std::move(stairs);
  return json;
}

std::optional<RecordedTimeline> recorded_timeline(const Record& record) {
  if (!record.metrics || !record.metrics->is_object()) return std::nullopt;
  const Json* json = record.metrics->find_key("timeline");
  if (!json || !json->is_object()) return std::nullopt;
  RecordedTimeline timeline{.is_measured = json->value("measured", false),
                            .events = std::max<int64_t>(whole_in(*json, "events"), 0),
                            .peak = bytes_in(*json, "peak_bytes"),
                            .gaps = bytes_in(*json, "gaps_bytes"),
                            .inputs = bytes_in(*json, "inputs_bytes")};
  if (const Json* made = json->find_key("at_peak"); made && made->is_object())
    timeline.at_peak = read_tensors(*made);
  if (const Json* made = json->find_key("residual"); made && made->is_object())
    timeline.residual = read_tensors(*made);
  for_each_in(*json, "phases", kMostPhases, [&](const Json& each) {
    if (each.is_object())
      timeline.phases.push_back({plain(text_of(each, "name")), whole_in(each, "first_event"),
                                 bytes_in(each, "peak_bytes")});
  });
  for_each_in(*json, "points", 2 * kMostPoints, [&](const Json& each) {
    if (const auto point = read_point(each)) timeline.points.push_back(*point);
  });
  sort_by(timeline.points, &RecordedTimeline::Point::event);
  const auto read_list = [&](const char* key, auto& list) {
    for_each_in(*json, key, kMostTensors, [&](const Json& each) {
      if (each.is_object()) list.push_back(read_tensors(each));
    });
  };
  read_list("held", timeline.held);
  read_list("largest", timeline.largest);
  for_each_in(*json, "stairs", kMostStairs, [&](const Json& each) {
    if (each.is_object())
      timeline.stairs.push_back({plain(text_of(each, "layer")),
                                 bytes_in(each, "live_bytes"),
                                 {whole_in(each, "kept_bytes")}});
  });
  return timeline;
}

}  // namespace ridgeline
