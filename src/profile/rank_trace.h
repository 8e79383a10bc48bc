// Writes a step of several ranks as a trace for chrome://tracing and Perfetto, with a track of
// computation and one of communication per rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace ridgeline {

struct RankSlice {
  std::string name;
  std::string category;              // "kernel", "wait", "collective"
  int64_t begin_ns = 0, end_ns = 0;  // since the common beginning of the step
};
// Slices of a track must not overlap: a slice that begins before the previous one ends is cut.
struct RankTimeline {
  std::vector<RankSlice> computation, communication;
};
Json to_json(const RankTimeline& timeline);
RankTimeline rank_timeline(const Json& json);

// Compressed if the path ends in .gz. Throws as write_trace() does.
void write_rank_trace(const std::vector<RankTimeline>& ranks, const std::string& name,
                      const std::filesystem::path& path);

}  // namespace ridgeline
