// Feeds mutated inputs to a parser. An Error is an answer; anything else is a finding: another
// exception, a crash, a sanitizer's report, or ten seconds on one input. `./lab fuzz` runs this for
// as long as asked, under the sanitizers.
//
//   RIDGELINE_FUZZ_SECONDS=60  for so long instead of a fixed number of inputs
//   RIDGELINE_FUZZ_SEED=7      other inputs
//   RIDGELINE_FUZZ_INPUT=FILE  only the input in FILE, as a finding leaves it
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_io.h"
#include "fuzz/mutator.h"
#include "measure/test_support.h"

// A report of theirs ends in a signal, so that the input is kept.
extern "C" __attribute__((weak)) const char* __asan_default_options() {
  return "abort_on_error=1";
}
extern "C" __attribute__((weak)) const char* __ubsan_default_options() {
  return "abort_on_error=1:print_stacktrace=1";
}

namespace ridgeline {

struct FuzzTarget {
  std::string name;
  std::vector<std::string> seeds;  // good inputs
  std::vector<std::string> words = {};
  std::function<void(const std::string&)> run;
  uint64_t inputs = 2000;  // in a plain run of the tests
};

namespace fuzz_detail {

// Inputs that are files are written by the thousand; memory does for them.
inline const int kInMemory = access("/dev/shm", W_OK) == 0 ? setenv("TMPDIR", "/dev/shm", 0) : 0;

constexpr unsigned kMostSeconds = 10;  // on one input

inline const std::string* running_input = nullptr;
inline std::string finding_file;

inline void keep_input() {
  FILE* file = std::fopen(finding_file.c_str(), "wb");
  if (file == nullptr || running_input == nullptr) return;
  std::fwrite(running_input->data(), 1, running_input->size(), file);
  std::fclose(file);
}

// Whatever ends the process leaves the input behind.
inline void on_end(int signal) {
  keep_input();
  dprintf(STDERR_FILENO, "fuzz: signal %d; the input is in %s\n", signal, finding_file.c_str());
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// What a command prints is not looked at. The streams are exchanged and not the descriptors, so
// that a sanitizer's report is seen.
class Silence {
 public:
  Silence() : out_(stdout), err_(stderr), null_(std::fopen("/dev/null", "w")) {
    std::fflush(stdout);
    stdout = stderr = null_;
  }
  ~Silence() {
    stdout = out_;
    stderr = err_;
    std::fclose(null_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  std::FILE *out_, *err_, *null_;
};

inline uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Empty: it was answered as it should be.
inline std::string finding(const FuzzTarget& target, const std::string& input) {
  running_input = &input;
  alarm(kMostSeconds);
  std::string found;
  try {
    const Silence silence;
    target.run(input);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) found = error.what();
  } catch (const std::exception& error) {
    found = error.what();
  }
  alarm(0);
  running_input = nullptr;
  return found;
}

}  // namespace fuzz_detail

inline void fuzz(const FuzzTarget& target) {
  using namespace fuzz_detail;
  finding_file =
      (std::filesystem::temp_directory_path() / ("ridgeline-fuzz-" + target.name)).string();
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGALRM}) std::signal(signal, on_end);
  if (const char* file = std::getenv("RIDGELINE_FUZZ_INPUT")) {
    EXPECT_EQ(finding(target, read_text(file)), "");
    return;
  }
  for (const std::string& seed : target.seeds)
    EXPECT_EQ(finding(target, seed), "") << "of an input that was not changed";
  const auto seconds = number_from_environment("RIDGELINE_FUZZ_SECONDS", 0);
  const uint64_t seed = number_from_environment("RIDGELINE_FUZZ_SEED", 1);
  const double deadline = monotonic_s() + static_cast<double>(seconds);
  Mutator mutator(seed, target.seeds, target.words);
  uint64_t done = 0;
  while (seconds > 0 ? monotonic_s() < deadline : done < target.inputs) {
    const std::string input = mutator.make(done++);
    const std::string found = finding(target, input);
    if (found.empty()) continue;
    running_input = &input;
    keep_input();
    ADD_FAILURE() << "input " << done - 1 << " of seed " << seed << ": " << found << "\nit is in "
                  << finding_file;
    break;
  }
  fmt::print("fuzz: {}: {} inputs of seed {}\n", target.name, done, seed);
}

}  // namespace ridgeline
