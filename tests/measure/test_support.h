// Helpers for tests of measure/ and report/: temporary directories, records, child processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "measure/record.h"
#include "support/expect.h"

namespace ridgeline {

// A fresh directory, removed at the end of the test.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ridgeline-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Runs `body` in a child process, which exits with its result; returns the wait status.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 99;
    try {
      code = body();
    } catch (...) {
    }
    _exit(code);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

inline Series series_of(const std::string& name, const std::vector<double>& samples_ms) {
  return {name, summarize(samples_ms), samples_ms};
}

// Makes the record one of a quiet machine, as a verdict on single runs requires.
inline void be_quiet(Record& record) {
  record.disturbance = Disturbance{.window_s = 1, .processors = 2};
  record.speed_before = record.speed_after =
      ProcessorSpeed{.threads = 2, .alone_gflops = 31, .together_gflops = 31, .memory_gb_per_s = 8};
}

struct AttentionCase {
  std::string implementation = "naive";
  int seq_len = 256;
  int d_model = 64;
  double forward_ms = 1;
  double backward_ms = 2;
  Status status = Status::ok;
  std::string dtype = "fp32";
};

// A row whose samples are close to the given medians.
inline Record attention_record(const AttentionCase& c) {
  Record record;
  record.study = "attention";
  record.time = "2026-01-31T12:34:56Z";
  record.workload = {{"batch_size", 8},      {"heads", 1},      {"seq_len", c.seq_len},
                     {"d_model", c.d_model}, {"causal", false}, {"dtype", c.dtype}};
  record.implementation = c.implementation;
  record.device = "cpu";
  be_quiet(record);
  record.status = c.status;
  if (c.status == Status::ok) {
    const auto around = [](double ms) {
      return std::vector<double>{ms * 0.99, ms, ms, ms, ms, ms, ms * 1.01};
    };
    record.series = {series_of("forward", around(c.forward_ms)),
                     series_of("backward", around(c.backward_ms))};
  } else {
    record.error = "it failed";
  }
  return record;
}

}  // namespace ridgeline
