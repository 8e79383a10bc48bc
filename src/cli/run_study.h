// Runs a study: opens the device, measures its rows, and prints the results.
#pragma once

#include <filesystem>

#include "studies/studies.h"

namespace ridgeline {

// Returns the exit code. `folder` receives the results; empty: the study's folder in the results
// folder.
int run_study(const StudyInfo& info, Study& study, const std::filesystem::path& folder = {});

}  // namespace ridgeline
