// One step of a profile in the form that records hold, piece by piece: the data of a timeline.
//
//   record.metrics["step"] = step_json(profile);
//   if (const auto step = recorded_step(record)) step->work.front().name;
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "measure/record.h"
#include "profile/profile.h"

namespace ridgeline {

struct RecordedStep {
  struct Work {
    size_t track = 0;
    double begin_us = 0, us = 0;  // since the first piece began
    std::string name, scope, phase, category;
  };
  std::vector<std::string> tracks = {};  // "stream 7", "launch graph", "kernels"
  std::vector<Work> work = {};           // in the order of their start
  size_t left_out = 0;                   // pieces after the last one that is kept
};

// Returns the last profiled step, with at most kMostWork pieces.
inline constexpr size_t kMostWork = 4000;
Json step_json(const Profile& profile);

// Returns nullopt if the record has no step. Records come from files, so every value is checked.
std::optional<RecordedStep> recorded_step(const Record& record);

}  // namespace ridgeline
