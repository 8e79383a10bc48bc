// Limits of the system and programs that hang: each is an error with a next step, never an abort,
// an endless loop or something left behind.
#include <gtest/gtest.h>

#include "cli/run_ridgeline.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr rlim_t kMiB = rlim_t{1} << 20;

Arguments row_of_threads(const std::string& threads) {
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
  const Finished run = sandbox.run(row_of_threads("1"),
                                   {.limits = {{RLIMIT_AS, 150 * kMiB}}, .patience = seconds{20}});
  EXPECT_EQ(run.exit_code, 4) << run.err << " signal " << run.signal;
  for (const char* part : {"limit of 150 MiB", "ulimit -v", "--threads"})
    EXPECT_TRUE(contains(run.err, part)) << run.err;
}

TEST(MemoryLimit, HoldsForAllThreadsTogether) {
  if (has_sanitizer()) GTEST_SKIP();
  const Sandbox sandbox;
  const RunOptions limited{.limits = {{RLIMIT_AS, 700 * kMiB}}, .patience = seconds{20}};
  EXPECT_EQ(sandbox.run(row_of_threads("2"), limited).exit_code, 0);
  const Finished run = sandbox.run(row_of_threads("8"), limited);
  EXPECT_EQ(run.exit_code, 4) << run.err << " signal " << run.signal;
  EXPECT_TRUE(contains(run.err, "of 8 threads")) << run.err;
}

TEST(MemoryLimit, ThreadsThatCannotBeStartedAreExit4) {
  if (has_sanitizer()) GTEST_SKIP();
  const Sandbox sandbox;
  for (const Arguments& arguments :
       {row_of_threads("4000"), Arguments{"doctor", "--threads", "4000"}}) {
    const Finished run =
        sandbox.run(arguments, {.limits = {{RLIMIT_AS, 1000 * kMiB}}, .patience = seconds{20}});
    EXPECT_EQ(run.signal, 0);
    if (arguments[0] == "doctor") continue;  // which may not ask for any
    EXPECT_EQ(run.exit_code, 4) << run.err;
    EXPECT_TRUE(contains(run.err, "of 4000 threads could be started")) << run.err;
  }
}

bool is_running(const std::string& process) {
  std::ifstream stat("/proc/" + process + "/stat");
  std::string id, name, state;
  return stat >> id >> name >> state && state != "Z";
}

// A compiler that hangs with a child of its own, as a driver of compilers has.
void write_hanging_compiler(const fs::path& path, const fs::path& ids) {
  write_text(path, "#!/bin/sh\nsleep 1000 &\necho $$ $! >> " + ids.string() + "\nwait\n");
  fs::permissions(path, fs::perms::owner_all);
}

void expect_end_without_a_trace(int signal) {
  const Sandbox sandbox;
  write_hanging_compiler(sandbox / "compiler", sandbox / "ids");
  fs::create_directories(sandbox / "temporary");
  RunOptions options = without_cuda();
  options.environment.insert({{"CXX", (sandbox / "compiler").string()},
                              {"TMPDIR", (sandbox / "temporary").string()},
                              {"RIDGELINE_CACHE_DIR", (sandbox / "cache").string()}});
  Running model(sandbox.path(),
                {"model", "--device",     "cpu",      "--threads",        "1", "--layers",
                 "1",     "--heads",      "1",        "--d-model",        "8", "--d-ff",
                 "8",     "--vocabulary", "10",       "--context-length", "4", "--batch-size",
                 "1",     "--mode",       "compiled", "--warmup-steps",   "0", "--measure-steps",
                 "1"},
                options);
  ASSERT_TRUE(
      model.collect(seconds{30}, [&] { return read_text(sandbox / "ids").ends_with("\n"); }));
  model.send(signal);
  const auto start = Clock::now();
  const Finished run = model.wait();
  EXPECT_LT(Clock::now() - start, seconds{20});
  EXPECT_EQ(run.exit_code, 130) << run.err << " signal " << run.signal;
  EXPECT_TRUE(contains(run.err, "interrupted after 0 of 1 rows")) << run.err;
  EXPECT_TRUE(fs::is_empty(sandbox / "temporary"));
  std::istringstream ids(read_text(sandbox / "ids"));
  for (std::string id; ids >> id;) {
    for (int i = 0; i < 200 && is_running(id); ++i) usleep(10'000);
    EXPECT_FALSE(is_running(id)) << id;
  }
}

TEST(HangingCompiler, EndsWithTheFirstSigterm) {
  expect_end_without_a_trace(SIGTERM);
}

TEST(HangingCompiler, EndsWithTheFirstSigint) {
  expect_end_without_a_trace(SIGINT);
}

}  // namespace
}  // namespace ridgeline
