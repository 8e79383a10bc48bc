// Ranks that we start ourselves: they find each other, and one that ends takes all with it, by
// name.
#include "dist/local_ranks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

LocalRanksOptions program(int ranks, const std::string& what) {
  return {.ranks = ranks, .words = {RANK_PROGRAM, what}};
}

std::string failure_of(LocalRanks& ranks) {
  try {
    while (ranks.read_line({.seconds = 30})) continue;
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.kind()), 4);
    return error.message();
  }
  return "no error";
}

bool lives(int process) {
  return process > 0 && kill(process, 0) == 0;
}

TEST(LocalRanks, FindEachOther) {
  LocalRanks ranks(program(3, "stops"));
  EXPECT_EQ(ranks.read_line({.seconds = 30}), "joined 3");
  EXPECT_EQ(ranks.read_line({.seconds = 30}), "done");
}

// Kills one of them after a random part of a second, from its start on.
void kill_a_rank(unsigned seed) {
  std::mt19937 random(seed);
  LocalRanks ranks(program(3, "runs"));
  const std::vector<int> processes = ranks.processes();
  const size_t victim = random() % 3;
  usleep(static_cast<useconds_t>(random() % 200'000));
  const double began = monotonic_s();
  kill(processes[victim], SIGKILL);
  const std::string text = failure_of(ranks);
  EXPECT_LT(monotonic_s(), began + 10);
  EXPECT_HAS(text, "rank " + std::to_string(victim) +
                       " of 3 ended with signal 9 (Killed) while it was at: ");
  for (const int process : processes) EXPECT_FALSE(lives(process)) << process;
}

TEST(LocalRanks, OfWhichOneIsKilledEndAndSayWhichAndDuringWhat) {
  for (unsigned seed = 0; seed < 4; ++seed) kill_a_rank(seed);
}

TEST(SlowLocalRanks, OfWhichOneIsKilledAtFiftyMomentsEnd) {
  for (unsigned seed = 100; seed < 150; ++seed) kill_a_rank(seed);
}

TEST(LocalRanks, ThatFailSayWhatTheFailedOneSaid) {
  LocalRanks ranks(program(2, "throws"));
  const std::string text = failure_of(ranks);
  EXPECT_HAS(text, "rank 1 of 2 ended with exit code 2");
  EXPECT_HAS(text, "it said: no such model");
}

TEST(LocalRanks, OfDifferentBuildsAreNamed) {
  LocalRanks ranks(program(2, "another build"));
  const std::string text = failure_of(ranks);
  EXPECT_HAS(text, "has build '2', and rank 0");
}

TEST(LocalRanks, OfWhichOneNeverComesEndAtTheDeadline) {
  LocalRanks ranks(program(2, "never joins"));
  const std::string text = failure_of(ranks);
  EXPECT_HAS(text, "1 of 2 ranks came to 'join' within 1 s; rank 1 is missing");
}

TEST(LocalRanks, ThatHaveNotJoinedAreAtTheirStart) {
  LocalRanks ranks({.ranks = 2, .words = {"/bin/sleep", "100"}});
  EXPECT_ERROR(ranks.read_line({.seconds = 0.1}), ErrorKind::environment,
               "rank 1 is at: its start");
}

TEST(LocalRanks, EndWhenTheyAreInterrupted) {
  LocalRanks ranks(program(2, "runs"));
  const std::vector<int> processes = ranks.processes();
  EXPECT_EQ(ranks.read_line({.seconds = 30}), "joined 2");
  EXPECT_FALSE(ranks.read_line({.seconds = 30, .interrupted = [] { return true; }}));
  for (const int process : processes) EXPECT_FALSE(lives(process)) << process;
}

}  // namespace
}  // namespace ridgeline
