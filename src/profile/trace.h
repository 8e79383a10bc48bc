// Writes a profile as a trace for chrome://tracing, Perfetto and tools for PyTorch traces.
//
//   write_trace(profile, "results/profile/trace_small.json.gz", {.name = "small"});
//
// Categories and arguments have the names that Kineto, PyTorch's tracer, uses. Viewers drop slices
// of a track that overlap without nesting, and kernels of one stream may overlap, so a stream has
// as many lanes as it needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "profile/profile.h"
#include "runtime/utilisation.h"

namespace ridgeline {

// A value over time.
struct CounterTrack {
  struct Point {
    int64_t at_ns = 0;  // on the profile's clock
    double value = 0;
  };
  std::string name;    // "memory", "SM active"
  std::string series;  // "bytes", "%"
  std::vector<Point> points;
  std::string process = {};  // that the viewer lists it under; empty: the device
};

// An annotated interval on the track of host calls.
struct TraceMark {
  std::string name;
  int64_t begin_ns = 0, end_ns = 0;  // on the profile's clock
};

struct TraceOptions {
  std::string name = {};
  std::vector<CounterTrack> counters = {};
  std::vector<TraceMark> marks = {};
};

// Compresses if the path ends in .gz. Streams to a file that appears only when complete. Throws a
// usage or environment error for a path that cannot be written or a full disk.
void write_trace(const Profile& profile, const std::filesystem::path& path,
                 const TraceOptions& options = {});

// Adds a GPU's counters over time as tracks of the process "GPU 0 Counters", and a mark over the
// interval in which they were sampled, cut to the length of the profile's steps so that these stay
// visible. `offset_ns`: the profile's clock less monotonic_ns().
void add_utilisation(TraceOptions& options, const Utilisation& seen, int ordinal, int64_t offset_ns,
                     const Profile& profile);

// The lane of each invocation within its stream, or within the launch graph.
std::vector<uint32_t> lanes_of(const Profile& profile);
// The track of work on a lane: "stream 7", "launch graph (overlap 1)".
std::string track_name(const DeviceWork& work, uint32_t lane);

// Returns text as a JSON string in quotes, with invalid UTF-8 replaced by U+FFFD.
std::string json_text(std::string_view text);

}  // namespace ridgeline
