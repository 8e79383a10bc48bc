// Runs a list of attention workloads into a results file and shows what came out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "studies/attention_study.h"

namespace ridgeline {

struct SweepOptions {
  AttentionStudyOptions study;
  std::filesystem::path directory = "results/attention";
  std::string output = {};   // a further CSV, JSONL or Markdown file; empty: none
  bool resume = false;       // keep what the results file holds and run only the rest
  std::string command = {};  // how a row is run again, without its sizes
};

struct SweepResult {
  std::vector<Record> records;  // kept and new, in the order of the workloads
  bool interrupted = false;
};

// Each record is on the disk before the next row starts. Prints progress on a terminal, then
// tables, the smallest OOM with its memory account, and an explanation.
SweepResult run_attention_sweep(const std::vector<AttentionWorkload>& workloads, CpuDevice& device,
                                const SweepOptions& options);

// 0, or 3 when a row was wrong, or 130 when interrupted.
int exit_code(const SweepResult& result);

}  // namespace ridgeline
