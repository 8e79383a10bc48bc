// A memory timeline as records carry it: the points of its drawing, and what it adds up to.
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
  Bytes inputs = {};                     // there before the first kernel
  Tensors at_peak = {};                  // what was made when the peak came
  std::optional<Tensors> residual = {};  // of a model: what one layer hands to the next
  std::vector<Phase> phases = {};
  std::vector<Point> points = {};
  std::vector<Tensors> held = {}, largest = {};  // at the peak; of all but inputs
  std::vector<Stair> stairs = {};
};

RecordedTimeline recorded(const MemoryTimeline& timeline, bool is_measured);
Json to_json(const RecordedTimeline& timeline);
// Empty: the record has none. Records come from files, so nothing is taken for granted.
std::optional<RecordedTimeline> recorded_timeline(const Record& record);

}  // namespace ridgeline
