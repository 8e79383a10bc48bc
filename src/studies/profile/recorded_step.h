// One step of a profile, piece by piece, as records carry it: what a timeline draws.
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
    double begin_us = 0, us = 0;  // from the beginning of the first piece on
    std::string name, scope, phase, category;
  };
  std::vector<std::string> tracks = {};  // "stream 7", "launch graph", "kernels"
  std::vector<Work> work = {};           // in the order of their beginning
  size_t left_out = 0;                   // pieces behind the last one that is kept
};

// Of the last step that was kept, at most so many pieces.
inline constexpr size_t kMostWork = 4000;
Json step_json(const Profile& profile);

// Empty: the record has none. Records come from files, so nothing is taken for granted.
std::optional<RecordedStep> recorded_step(const Record& record);

}  // namespace ridgeline
