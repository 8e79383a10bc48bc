#include "profile/rank_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file_io.h"
#include "profile/trace.h"
#include "profile/trace_file.h"

namespace ridgeline {
namespace {

struct RankTrack {
  const char* name;
  std::vector<RankSlice> RankTimeline::*slices;
};
constexpr RankTrack kRankTracks[] = {
    {"computation", &RankTimeline::computation},
    {"communication", &RankTimeline::communication},
};

std::string microseconds(int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

std::string meta(const char* kind, size_t rank, size_t track, const std::string& arguments) {
  return fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"ts":0,"args":{{{}}}}})", kind,
                     rank, track, arguments);
}

void add_track(const std::vector<RankSlice>& slices, size_t rank, size_t track,
               std::vector<std::string>& events) {
  std::vector<RankSlice> in_order = slices;
  std::ranges::stable_sort(in_order, {}, &RankSlice::begin_ns);
  int64_t last = 0;
  for (const RankSlice& slice : in_order) {
    const int64_t begin = std::max(slice.begin_ns, last);
    last = std::max(slice.end_ns, begin + 1);
    events.push_back(fmt::format(
        R"({{"ph":"X","cat":{},"name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{}}}})",
        json_text(slice.category), json_text(slice.name), rank, track, microseconds(begin),
        microseconds(last - begin)));
  }
}

}  // namespace

Json to_json(const RankTimeline& timeline) {
  Json json = Json::object();
  for (const RankTrack& track : kRankTracks) {
    Json slices = Json::array();
    for (const RankSlice& each : timeline.*track.slices)
      slices.push_back(Json{{"name", each.name},
                            {"category", each.category},
                            {"begin_ns", each.begin_ns},
                            {"end_ns", each.end_ns}});
    json[track.name] = std::move(slices);
  }
  return json;
}

RankTimeline rank_timeline(const Json& json) {
  RankTimeline timeline;
  for (const RankTrack& track : kRankTracks)
    for (const Json& each : json[track.name])
      (timeline.*track.slices)
          .push_back({.name = each["name"].text(),
                      .category = each["category"].text(),
                      .begin_ns = each["begin_ns"].get<int64_t>(),
                      .end_ns = each["end_ns"].get<int64_t>()});
  return timeline;
}

void write_rank_trace(const std::vector<RankTimeline>& ranks, const std::string& name,
                      const std::filesystem::path& path) {
  std::vector<std::string> events;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    events.push_back(meta("process_name", rank, 0, fmt::format(R"("name":"rank {}")", rank)));
    events.push_back(meta("process_sort_index", rank, 0, fmt::format(R"("sort_index":{})", rank)));
    for (size_t track = 0; track < std::size(kRankTracks); ++track) {
      events.push_back(
          meta("thread_name", rank, track, fmt::format(R"("name":"{}")", kRankTracks[track].name)));
      add_track(ranks[rank].*kRankTracks[track].slices, rank, track, events);
    }
  }
  std::string text =
      fmt::format(R"({{"schemaVersion":1,"displayTimeUnit":"ms","traceName":{},"traceEvents":[)",
                  json_text(name));
  for (size_t i = 0; i < events.size(); ++i) text += (i == 0 ? "\n" : ",\n") + events[i];
  text += "\n]}\n";
  write_trace_file(path, [&](const Append& out) { out(text); });
}

}  // namespace ridgeline
