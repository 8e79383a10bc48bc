// Runs a list of attention workloads into a results file and shows what came out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/sweep.h"
#include "studies/attention/row.h"

namespace ridgeline {

struct AttentionSweepOptions {
  AttentionStudyOptions study;
  std::filesystem::path directory = "results/attention";
  OutputFlags output = {};  // further files
  SaveBaseline baseline = {};
  bool resume = false;       // keep what the results file holds and run only the rest
  int runs = 1;              // in fresh processes
  std::string command = {};  // how a row is run again, without its sizes
  Stages* stages = nullptr;  // of rows, as in SweepPlan
};

// Each record is on the disk before the next row starts. Prints progress on a terminal, then
// tables, the smallest OOM with its memory account, and an explanation.
SweepResult run_attention_sweep(const std::vector<AttentionWorkload>& workloads, Device& device,
                                const AttentionSweepOptions& options);

}  // namespace ridgeline
