// A memory timeline in the form that records hold: the points of its chart, and its totals.
//
//   record.metrics = Json{{"timeline", to_json(recorded(timeline, /*is_measured=*/true))}};
//   if (const auto timeline = recorded_timeline(record)) timeline->largest.front().name;
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/record.h"
#include "profile/memory_timeline.h"

namespace ridgeline {

struct RecordedTimeline {
  struct Phase {
    std::string name;
    int64_t first_event = 0;
    Bytes peak;  // within it
  };
  struct Point {
    int64_t event = 0;
    Bytes live, predicted;
    Bytes change;        // negative: released
    std::string tensor;  // "scores fp32[4, 32, 512, 512] of layers.3.attention.scores by matmul"
  };
  struct Tensors {  // one, or one of every layer
    std::string name, type, scope, op, phase;
    int64_t count = 0;
    Bytes each;

    Bytes total() const { return {each.count * count}; }
  };
  struct Stair {
    std::string layer;
    Bytes live, kept;
  };

  bool is_measured = false;
  int64_t events = 0;
  Bytes peak = {};                       // of live tensors
  Bytes gaps = {};                       // of a plan's arena, at the peak
  Bytes inputs = {};                     // live before the first kernel
  Tensors at_peak = {};                  // the tensor whose allocation reaches the peak
  std::optional<Tensors> residual = {};  // of a model: the tensor between two layers
  std::vector<Phase> phases = {};
  std::vector<Point> points = {};
  std::vector<Tensors> held = {}, largest = {};  // at the peak; of all but inputs
  std::vector<Stair> stairs = {};
};

RecordedTimeline recorded(const MemoryTimeline& timeline, bool is_measured);
Json to_json(const RecordedTimeline& timeline);
// Returns nullopt if the record has no timeline. Values from files are checked.
std::optional<RecordedTimeline> recorded_timeline(const Record& record);

}  // namespace ridgeline
