// Reads a trace back and holds it against what viewers ask for.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/child_process.h"
#include "base/json.h"

namespace ridgeline::testing {

inline std::string gunzip(const std::filesystem::path& path) {
  ChildProcess gzip({find_program("gzip").string(), "-dc", path.string()});
  const auto all = gzip.read_all({.seconds = 60, .most_bytes = size_t{1} << 30});
  EXPECT_EQ(gzip.end(10), "exit code 0") << gzip.last_errors();
  return all.text;
}

// A trace as it was written: a line for its head and one for each event, so that no reader has to
// hold it as one value.
struct ReadTrace {
  Json head;
  std::vector<Json> events;
};

inline ReadTrace read_trace(const std::string& text) {
  ReadTrace trace;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line == "]}") return trace;
    if (trace.head.is_null()) {
      trace.head = Json::parse(line + "]}");
      continue;
    }
    if (line.ends_with(',')) line.pop_back();
    if (!line.empty()) trace.events.push_back(Json::parse(line));
  }
  ADD_FAILURE() << "the trace has no end";
  return trace;
}

// The sentence that is wrong with slices of one track that overlap without nesting; empty: nothing.
inline std::string overlap_in(const std::vector<Json>& events) {
  struct Slice {
    double begin, end;
    std::string name;
  };
  std::map<std::pair<int64_t, int64_t>, std::vector<Slice>> tracks;
  for (const Json& event : events) {
    if (event.at("ph").text() != "X") continue;
    const auto begin = event.at("ts").get<double>(), duration = event.at("dur").get<double>();
    if (duration <= 0) return "a slice without a duration: " + event.at("name").text();
    tracks[{event.at("pid").get<int64_t>(), event.at("tid").get<int64_t>()}].push_back(
        {begin, begin + duration, event.at("name").text()});
  }
  constexpr double kRounding = 1e-4;  // microseconds; files have whole nanoseconds
  for (auto& [track, slices] : tracks) {
    std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    std::vector<Slice> open;
    for (const Slice& slice : slices) {
      while (!open.empty() && open.back().end <= slice.begin + kRounding) open.pop_back();
      if (!open.empty() && slice.end > open.back().end + kRounding)
        return "'" + slice.name + "' begins inside of '" + open.back().name + "' and ends after it";
      open.push_back(slice);
    }
  }
  return {};
}

inline std::vector<const Json*> events_of(const ReadTrace& trace, const std::string& phase,
                                          const std::string& category = {}) {
  std::vector<const Json*> found;
  for (const Json& event : trace.events)
    if (event.at("ph").text() == phase && (category.empty() || event.value("cat", "") == category))
      found.push_back(&event);
  return found;
}

}  // namespace ridgeline::testing
