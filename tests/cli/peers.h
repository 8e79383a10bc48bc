// Runs rows of other libraries: by a stand-in of Python's standard library alone, and where PyTorch
// is.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/child_process.h"
#include "cli/run_ridgeline.h"

#define REQUIRE_PYTHON() \
  if (python().empty()) GTEST_SKIP() << "no python3"

namespace ridgeline {

inline std::filesystem::path python() {
  const char* named = std::getenv("RIDGELINE_PYTHON");
  return find_program(named ? named : "python3");
}

inline bool has_torch() {
  if (python().empty()) return false;
  ChildProcess probe({python().string(), "-c", "import torch; print('yes')"});
  return probe.read_line({.seconds = 120}).line == "yes";
}

inline RunOptions with_fake_peers() {
  RunOptions options = without_cuda();
  options.environment["RIDGELINE_PEERS"] = RIDGELINE_TESTS_DIR "/cli/fake_peers";
  return options;
}

inline const Record* find(const ReadResult& results, const std::string& implementation) {
  for (const Record& record : results.records)
    if (record.implementation == implementation) return &record;
  return nullptr;
}

}  // namespace ridgeline
