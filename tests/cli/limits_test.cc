// Limits of the system and programs that hang: each is an error with a next step, never an abort,
// an endless loop or something left behind.
#include <gtest/gtest.h>

#include "cli/run_ridgeline.h"

namespace ridgeline {
namespace {

using std::chrono::seconds;

constexpr rlim_t kMiB = rlim_t{1} << 20;

Arguments one_row(const std::string& threads) {
  return {"attention", "--device",     "cpu", "--threads",        threads, "--batch-size",
          "1",         "--num-warmup", "1",   "--num-iterations", "1",     "--impl",
          "naive",     "--d-model",    "8",   "--seq-len",        "16"};
}

// A sanitizer's own memory is beyond any such limit.
bool has_sanitizer() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

TEST(MemoryLimit, WithoutRoomForProductsIsExit4) {
  if (has_sanitizer()) GTEST_SKIP();
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(one_row("1"), {.limits = {{RLIMIT_AS, 150 * kMiB}}, .patience = seconds{20}});
  EXPECT_EQ(run.exit_code, 4) << run.err << " signal " << run.signal;
  for (const char* part : {"limit of 150 MiB", "ulimit -v", "--threads"})
    EXPECT_TRUE(contains(run.err, part)) << run.err;
}

TEST(MemoryLimit, HoldsForAllThreadsTogether) {
  if (has_sanitizer()) GTEST_SKIP();
  const Sandbox sandbox;
  const RunOptions limited{.limits = {{RLIMIT_AS, 700 * kMiB}}, .patience = seconds{20}};
  EXPECT_EQ(sandbox.run(one_row("2"), limited).exit_code, 0);
  const Finished run = sandbox.run(one_row("8"), limited);
  EXPECT_EQ(run.exit_code, 4) << run.err << " signal " << run.signal;
  EXPECT_TRUE(contains(run.err, "of 8 threads")) << run.err;
}

TEST(MemoryLimit, ThreadsThatCannotBeStartedAreExit4) {
  if (has_sanitizer()) GTEST_SKIP();
  const Sandbox sandbox;
  for (const Arguments& arguments : {one_row("4000"), Arguments{"doctor", "--threads", "4000"}}) {
    const Finished run =
        sandbox.run(arguments, {.limits = {{RLIMIT_AS, 1000 * kMiB}}, .patience = seconds{20}});
    EXPECT_EQ(run.signal, 0);
    if (arguments[0] == "doctor") continue;  // which may not ask for any
    EXPECT_EQ(run.exit_code, 4) << run.err;
    EXPECT_TRUE(contains(run.err, "of 4000 threads could be started")) << run.err;
  }
}

}  // namespace
}  // namespace ridgeline
