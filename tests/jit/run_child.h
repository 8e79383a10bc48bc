// Runs one test of this binary in a process of its own: what is opened or said once per process
// starts afresh there, with another environment and other limits.
//
//   TEST(Child, DISABLED_CompilesAKernel) { ... }
//   const ChildResult child = run_child("CompilesAKernel", {{"HOME", ""}});
//   EXPECT_EQ(child.exit_code, 0) << child.out << child.err;
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

#include "measure/test_support.h"

namespace ridgeline {

struct ChildResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string out, err;
};

struct ChildLimits {
  rlim_t file_bytes = RLIM_INFINITY;
};

// A variable with an empty value is taken out of the environment.
inline ChildResult run_child(const std::string& test,
                             const std::map<std::string, std::string>& environment,
                             ChildLimits limits = {}) {
  const TempDir output;
  const std::string out = output / "out", err = output / "err";
  const std::string filter = "--gtest_filter=Child.DISABLED_" + test;
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [name, value] : environment)
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    const int out_fd = open(out.c_str(), O_WRONLY | O_CREAT, 0600);
    const int err_fd = open(err.c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(out_fd, STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
    const rlimit limit{limits.file_bytes, limits.file_bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
    execl("/proc/self/exe", "tests", filter.c_str(), "--gtest_also_run_disabled_tests",
          "--gtest_brief=1", static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = read_text(out),
          .err = read_text(err)};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ridgeline
