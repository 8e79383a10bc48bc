// Training on ranks that are processes, by every backend between processes that is here: all ranks
// have the same bits, within twice the error that one process has against fp64.
#include <gtest/gtest.h>

#include "base/child_process.h"
#include "base/error.h"
#include "dist/local_ranks.h"
#include "dist/plugin_backend.h"

namespace ridgeline {
namespace {

constexpr double kPatienceS = 120;
constexpr int kStrategiesAndSteps = 12;  // six strategies, two graphs

const std::map<std::string, std::string> kPlugins = {{"RIDGELINE_PLUGINS", PLUGIN_DIRECTORY}};

bool is_built(const std::string& backend) {
  return std::filesystem::exists(std::filesystem::path(PLUGIN_DIRECTORY) /
                                 ("libridgeline_" + backend + ".so"));
}

void expect_right(const std::string& said, int ranks) {
  EXPECT_TRUE(said.ends_with("right\n")) << ranks << " ranks:\n" << said;
  EXPECT_EQ(std::ranges::count(said, '\n'), kStrategiesAndSteps + 1) << said;
}

class TrainedRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(SlowRanks, TrainedRanks, ::testing::Values(2, 3, 4));

TEST_P(TrainedRanks, OfGlooAreAsNearToFp64AsOneProcess) {
  if (!is_built("gloo")) GTEST_SKIP() << "no libgloo-dev";
  LocalRanks ranks(
      {.ranks = GetParam(), .words = {TRAINED_RANKS, "gloo"}, .environment = kPlugins});
  std::string said;
  while (const auto line = ranks.read_line({.seconds = kPatienceS})) {
    said += *line + "\n";
    if (*line == "right" || *line == "wrong") break;
  }
  expect_right(said, GetParam());
}

void expect_right_under(const std::string& backend, std::vector<std::string> launcher, int ranks) {
  if (!is_built(backend) || find_program(launcher[0]).empty())
    GTEST_SKIP() << "no " << backend << " with its launcher";
  launcher[0] = find_program(launcher[0]).string();
  for (const std::string& word :
       {std::string("-n"), std::to_string(ranks), std::string(TRAINED_RANKS), backend})
    launcher.push_back(word);
  ChildProcess run(launcher, {.environment = kPlugins});
  const auto said = run.read_all({.seconds = kPatienceS});
  EXPECT_EQ(run.end(0), "exit code 0") << run.last_errors();
  expect_right(said.text, ranks);
}

TEST_P(TrainedRanks, OfOpenMpiAreAsNearToFp64AsOneProcess) {
  expect_right_under("openmpi", {"mpirun.openmpi", "--oversubscribe", "--allow-run-as-root"},
                     GetParam());
}

// Four ranks of MPICH on two processors wait in loops for each other.
TEST(SlowTrainedMpichRanks, AreAsNearToFp64AsOneProcess) {
  expect_right_under("mpich", {"mpiexec.hydra"}, 2);
}

}  // namespace
}  // namespace ridgeline
