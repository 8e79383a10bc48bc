// Standard streams that are closed, full or limited: nothing that is written to them ends a run,
// and no message lands in a file.
#include <gtest/gtest.h>

#include "cli/run_ridgeline.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

Arguments one_row() {
  return tiny_attention({"--impl", "naive", "--d-model", "8", "--seq-len", "16"});
}

size_t files_of_results(const Sandbox& sandbox) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(sandbox / "results/attention"), {}));
}

TEST(StandardStreams, AFullStderrChangesNoExitCode) {
  const Sandbox sandbox;
  const RunOptions full{.stderr_to = "/dev/full"};
  for (int run = 0; run < 2; ++run)  // the second has earlier results to speak of
    EXPECT_EQ(sandbox.run(one_row(), full).exit_code, 0);
  EXPECT_EQ(sandbox.results().records.size(), 1u);
  EXPECT_EQ(files_of_results(sandbox), 4u) << "two runs, each with records and a table";
  EXPECT_EQ(sandbox.run({"no-such-command"}, full).exit_code, 2);
  EXPECT_EQ(sandbox.run({"attention", "--no-such-flag"}, full).exit_code, 2);
  EXPECT_EQ(sandbox.run({"attention", "--device", "cuda:7", "--impl", "naive"}, full).exit_code, 4);
}

TEST(StandardStreams, ClosedOnesTakeNoMessageIntoAFile) {
  for (const std::vector<int>& closed : {std::vector{STDERR_FILENO}, std::vector{STDOUT_FILENO},
                                         std::vector{STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}}) {
    const Sandbox sandbox;
    for (int run = 0; run < 2; ++run)
      EXPECT_EQ(sandbox.run(one_row(), {.closed = closed}).exit_code, 0);
    EXPECT_EQ(files_of_results(sandbox), 4u);
    for (const auto& entry : fs::directory_iterator(sandbox / "results/attention")) {
      if (entry.path().extension() != ".jsonl") continue;
      const ReadResult read = read_results(entry.path());
      EXPECT_EQ(read.records.size(), 1u);
      EXPECT_TRUE(read.problems.empty()) << read_text(entry.path());
    }
  }
}

TEST(StandardStreams, AFileSizeLimitUnderStdoutIsExit4) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run({"--help"}, {.limits = {{RLIMIT_FSIZE, 100}}, .stdout_to = sandbox / "out.txt"});
  EXPECT_EQ(run.signal, 0);
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_TRUE(contains(run.err, "output could not be written")) << run.err;
}

// SQLite writes by itself, and has no guard against the signal.
TEST(StandardStreams, AFileSizeLimitUnderTheHistoryIsExit4) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(one_row() + Arguments{"--save-baseline", "main"},
                                   {.limits = {{RLIMIT_FSIZE, 8'000}}});
  EXPECT_EQ(run.signal, 0);
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_TRUE(contains(run.err, "history.sqlite")) << run.err;
}

// A caller that ignores SIGCHLD leaves its children nothing to wait for.
TEST(StandardStreams, ChildrenAreWaitedForWhereTheCallerIgnoresIts) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(one_row() + Arguments{"--runs", "2"}, {.ignored = {SIGCHLD}});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(sandbox.results().records.size(), 2u);
}

// fmt::print throws where a stream cannot be written to.
TEST(StandardStreams, EveryMessageGoesThroughThePrintThatDoesNotThrow) {
  for (const auto& entry : fs::recursive_directory_iterator(RIDGELINE_TESTS_DIR "/../src")) {
    if (entry.path().extension() != ".cc") continue;
    const std::string text = read_text(entry.path());
    EXPECT_LACKS(text, "fmt::print(") << entry.path();
    EXPECT_LACKS(text, "printf(") << entry.path();
  }
}

}  // namespace
}  // namespace ridgeline
