// Kills (-9) at random moments of a sweep; RIDGELINE_KILLS says how many (15 unless it is set).
#include <gtest/gtest.h>

#include <random>

#include "cli/run_ridgeline.h"

namespace ridgeline {
namespace {

using std::chrono::microseconds;

constexpr size_t kRows = 24;
const Arguments kSweep = tiny_attention(
    {"--impl", "naive,flash", "--d-model", "8,16", "--seq-len", "16,24,32,40,48,64"});
// On a terminal the progress line tells which row had started when the kill came.
const RunOptions kOnTerminal{.environment = {{"TERM", "xterm"}, {"NO_COLOR", "1"}},
                             .stderr_is_terminal = true};

int wanted_kills() {
  const char* wanted = std::getenv("RIDGELINE_KILLS");
  return wanted ? std::max(1, std::atoi(wanted)) : 15;
}

// The k of the last "[k/24] ..." on the terminal; 0: no row had started.
size_t last_row_started(const std::string& progress) {
  const size_t slash = progress.rfind("/24] ");
  if (slash == std::string::npos) return 0;  // other brackets are escape codes of the terminal
  return std::stoul(progress.substr(progress.rfind('[', slash) + 1));
}

// The shortest of three, so that a busy machine does not put the kills behind the end.
microseconds duration_of_a_sweep() {
  microseconds shortest = microseconds::max();
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    EXPECT_EQ(Sandbox().run(kSweep, kOnTerminal).exit_code, 0);
    shortest = std::min(shortest, std::chrono::duration_cast<microseconds>(Clock::now() - start));
  }
  return shortest;
}

// Kills a resumed sweep after `delay`; false if it had ended before.
bool kill_sweep(const Sandbox& sandbox, microseconds delay) {
  Running sweep(sandbox.path(), kSweep + Arguments{"--resume"}, kOnTerminal);
  sweep.collect(delay);
  sweep.send(SIGKILL);
  const Finished run = sweep.wait();
  if (run.signal != SIGKILL) {
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return false;
  }
  const size_t started = last_row_started(run.err);
  const ReadResult results = sandbox.results();
  // Every row before the one that had started is there, and nothing beyond it.
  if (started > 0) {
    EXPECT_GE(results.records.size() + 1, started) << "a finished record was lost";
    EXPECT_LE(results.records.size(), started);
  }
  expect_each_once(results.records, results.records.size());
  EXPECT_LE(results.problems.size(), 1u);
  for (const LineProblem& problem : results.problems) {
    EXPECT_TRUE(problem.reason.starts_with("cut off")) << problem.reason;
    EXPECT_EQ(problem.line_number, static_cast<int64_t>(results.records.size()) + 1);
  }
  return true;
}

void expect_resume_completes(const Sandbox& sandbox) {
  const std::vector<Record> before = sandbox.results().records;
  const Finished run = sandbox.run(kSweep + Arguments{"--resume"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const ReadResult after = sandbox.results();
  EXPECT_TRUE(after.problems.empty());
  expect_each_once(after.records, kRows);
  ASSERT_GE(after.records.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(after.records[i], before[i]) << "a kept record changed";
}

class Delays {
 public:
  explicit Delays(microseconds longest) : longest_(longest) {}
  microseconds next() {
    return microseconds{std::uniform_int_distribution<int64_t>(0, longest_.count())(random_)};
  }

 private:
  microseconds longest_;
  std::mt19937 random_{42};
};

TEST(SlowKill, AtAnyMomentLosesAtMostOneRecordAndResumeCompletesTheRest) {
  Delays delays(duration_of_a_sweep());
  int landed = 0;
  const int wanted = wanted_kills();
  for (int attempt = 0; landed < wanted && attempt < 4 * wanted; ++attempt) {
    const Sandbox sandbox;
    if (!kill_sweep(sandbox, delays.next())) continue;
    ++landed;
    expect_resume_completes(sandbox);
    if (HasFailure()) return;
  }
  EXPECT_EQ(landed, wanted) << "the sweep kept ending before its kill";
}

// Early kills, so that many of them fall before the sweep has ended.
TEST(SlowKill, AgainAndAgainOnOneFileTheSweepStillCompletes) {
  Delays delays(duration_of_a_sweep() / 2);
  const Sandbox sandbox;
  int landed = 0;
  while (landed < wanted_kills() && kill_sweep(sandbox, delays.next())) ++landed;
  EXPECT_GE(landed, 1);
  expect_resume_completes(sandbox);
}

}  // namespace
}  // namespace ridgeline
