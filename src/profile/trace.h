// Writes a profile as a trace that chrome://tracing, Perfetto and tools for PyTorch's traces open.
//
//   write_trace(profile, "results/profile/trace_small.json.gz", {.name = "small"});
//
// Names of categories and arguments are those of Kineto, PyTorch's tracer. Viewers drop slices that
// overlap on one track without nesting, and kernels of one stream may overlap, so each stream has
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

// A value over time beside the slices.
struct CounterTrack {
  struct Point {
    int64_t at_ns = 0;  // by the profile's clock
    double value = 0;
  };
  std::string name;    // "memory", "SM active"
  std::string series;  // "bytes", "%"
  std::vector<Point> points;
  std::string process = {};  // under which it stands; empty: the device
};

// A stretch of time beside the steps, among the calls of the host.
struct TraceMark {
  std::string name;
  int64_t begin_ns = 0, end_ns = 0;  // by the profile's clock
};

struct TraceOptions {
  std::string name = {};
  std::vector<CounterTrack> counters = {};
  std::vector<TraceMark> marks = {};
};

// Compressed if the path ends in .gz; streamed, and the file is there whole or not at all. Throws a
// usage or environment error for a path that cannot be written and for a full disk.
void write_trace(const Profile& profile, const std::filesystem::path& path,
                 const TraceOptions& options = {});

// What a GPU's counters told over time, as tracks of the process "GPU 0 Counters", and a mark over
// the time in which they were read: as much of it as the steps of the profile take, so that those
// stay in sight. `offset_ns`: the profile's clock less monotonic_ns().
void add_utilisation(TraceOptions& options, const Utilisation& seen, int ordinal, int64_t offset_ns,
                     const Profile& profile);

// As many numbers as there are invocations: on which lane of its stream, or of the launch graph,
// each is.
std::vector<uint32_t> lanes_of(const Profile& profile);
// "stream 7", "launch graph (overlap 1)": the track of a piece of work on such a lane.
std::string track_name(const DeviceWork& work, uint32_t lane);

// Text as JSON, in quotes: control characters and quotes are escaped, and bytes that are no UTF-8
// become U+FFFD.
std::string json_text(std::string_view text);

}  // namespace ridgeline
