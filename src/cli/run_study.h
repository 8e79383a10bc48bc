// Runs any study of the table: its command, its rows, and what is shown of them.
#pragma once

#include <filesystem>

#include "studies/studies.h"

namespace ridgeline {

// The exit code. `folder` takes the place of the study's own in the results folder; empty: none
// does.
int run_study(const StudyInfo& info, Study& study, const std::filesystem::path& folder = {});

}  // namespace ridgeline
