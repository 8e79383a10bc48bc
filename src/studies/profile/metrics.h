// A profile as it stands in records: folds of bounded number, and what they add up to.
#pragma once

#include "base/json.h"
#include "profile/profile.h"

namespace ridgeline {

// Rows of one fold in a record at most; what is left out is summed up as one more row.
inline constexpr size_t kMostFolds = 100;
inline constexpr const char* kOtherFolds = "(all others)";
inline constexpr const char* kNoNode = "(no node)";    // the key of work that belongs to none
inline constexpr const char* kNoPhase = "(no phase)";  // of other libraries' work outside of phases

// Times and invocations are those of one step, the mean over the steps that were kept.
Json profile_metrics(const Profile& profile);

}  // namespace ridgeline
