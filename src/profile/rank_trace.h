// A step of several ranks as a trace that chrome://tracing and Perfetto open: for each rank a track
// of what it computes and one of what it communicates.
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
  int64_t begin_ns = 0, end_ns = 0;  // behind the moment in which all ranks began the step
};
// Slices of a track come one after the other: one that would begin before the last one has ended is
// cut.
struct RankTimeline {
  std::vector<RankSlice> computation, communication;
};
Json to_json(const RankTimeline& timeline);
RankTimeline rank_timeline(const Json& json);

// Compressed if the path ends in .gz. Throws as write_trace() does.
void write_rank_trace(const std::vector<RankTimeline>& ranks, const std::string& name,
                      const std::filesystem::path& path);

}  // namespace ridgeline
