// A profile in the form that records hold: a bounded number of folds, and totals.
#pragma once

#include "base/json.h"
#include "profile/profile.h"

namespace ridgeline {

// The most rows of one fold in a record; the last of them sums up what is left out.
inline constexpr size_t kMostFolds = 100;
inline constexpr const char* kOtherFolds = "(all others)";
inline constexpr const char* kNoNode = "(no node)";    // the key of work outside of nodes
inline constexpr const char* kNoPhase = "(no phase)";  // the key of peers' work outside of phases

// Times and invocations are per step, averaged over the steps that were kept. Throws unsupported if
// no kernel was reported.
Json profile_metrics(const Profile& profile);

}  // namespace ridgeline
