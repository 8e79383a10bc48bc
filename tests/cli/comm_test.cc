// ridgeline comm as a user runs it: by ranks of its own, and under the launchers that are here.
#include <gtest/gtest.h>

#include "cli/launchers.h"
#include "dist/plugin_backend.h"

namespace ridgeline {
namespace {

// A size that fits in one piece of an exchange, and one that takes two.
Arguments tiny_comm(const Arguments& more) {
  return Arguments{"comm", "--size", "64KB,5MB", "-w", "0", "-r", "3"} + more;
}

std::vector<Record> comm_records(const Sandbox& sandbox) {
  const ReadResult found = read_results(sandbox / "results/comm/comm.jsonl");
  EXPECT_TRUE(found.problems.empty());
  return found.records;
}

void expect_served(const Sandbox& sandbox, const std::string& backend, int ranks, size_t rows) {
  const std::vector<Record> records = comm_records(sandbox);
  EXPECT_EQ(records.size(), rows);
  for (const Record& record : records) {
    EXPECT_EQ(record.status, Status::ok) << record.error;
    EXPECT_EQ(record.implementation, backend);
    EXPECT_EQ(record.workload.at("ranks").get<int>(), ranks);
    EXPECT_EQ(record.verification.tensors.at(0).max_error, 0);
    EXPECT_FALSE(record.metrics->at("library").text().empty());
  }
}

TEST(Comm, RunsEveryCollectiveByThreads) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_comm(
      {"--backend", "threads", "--ranks", "3", "--collective", "all", "--dtype", "bf16"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  expect_served(sandbox, "threads", 3, 4 * 2);
  EXPECT_TRUE(contains(read_text(sandbox / "results/comm/comm.csv"), "busbw_gb_per_s"));
  EXPECT_TRUE(contains(run.out, "busbw")) << run.out;
}

TEST(Comm, ListsBackendsAndPlansRows) {
  const Sandbox sandbox;
  const Finished list = sandbox.run({"comm", "--list"});
  EXPECT_TRUE(contains(list.out, "reduce-scatter") && contains(list.out, "gloo")) << list.out;
  EXPECT_EQ(sandbox.run(tiny_comm({"--dry-run", "--backend", "threads"})).exit_code, 0);
  EXPECT_TRUE(sandbox.is_empty());
  for (const Arguments& bad : {Arguments{"--backend", "carrier-pigeon"}, Arguments{"--ranks", "1"},
                               Arguments{"--collective", "gather"}, Arguments{"--dtype", "tf32"}})
    EXPECT_EQ(sandbox.run(tiny_comm(bad)).exit_code, 2) << bad[1];
}

TEST(Comm, SaysHowToGetABackendThatIsNotHere) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_comm({"--backend", "gloo", "--ranks", "2"}),
                                   {.environment = {{"RIDGELINE_PLUGINS", "/nowhere"}}});
  EXPECT_EQ(run.exit_code, 4) << "nothing was measured" << run.err;
  for (const Record& record : comm_records(sandbox)) {
    EXPECT_EQ(record.status, Status::unsupported);
    EXPECT_TRUE(contains(record.error, "apt install libgloo-dev")) << record.error;
  }
}

TEST(Comm, RunsByGlooWithRanksOfItsOwn) {
  if (!is_built("gloo")) GTEST_SKIP() << "no libgloo-dev";
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_comm(
      {"--backend", "gloo", "--ranks", "3", "--collective", "all", "--dtype", "fp32,bf16"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  expect_served(sandbox, "gloo", 3, 4 * 2 * 2);
}

TEST(Comm, RunsByOpenMpiWithRanksOfItsOwn) {
  if (!is_built("openmpi")) GTEST_SKIP() << "no libopenmpi-dev";
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_comm(
      {"--backend", "openmpi", "--ranks", "4", "--collective", "all", "--dtype", "fp32,bf16"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  expect_served(sandbox, "openmpi", 4, 4 * 2 * 2);
}

// Its ranks wait in a loop, which takes long where they share processors.
TEST(Comm, RunsByMpichWithRanksOfItsOwn) {
  if (!is_built("mpich")) GTEST_SKIP() << "no libmpich-dev";
  const Sandbox sandbox;
  const Finished run =
      sandbox.run({"comm", "--size", "64KB", "-w", "0", "-r", "2", "--backend", "mpich", "--ranks",
                   "2", "--collective", "all", "--dtype", "fp32,bf16"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  expect_served(sandbox, "mpich", 2, 4 * 2);
}

TEST(CommUnderLaunchers, IsServedByTheRanksOfMpirunAndMpiexec) {
  int found = 0;
  const Arguments rows =
      tiny_comm({"--collective", "all-reduce,all-gather", "--dtype", "fp32,fp16"});
  if (is_built("openmpi") && !find_program("mpirun.openmpi").empty()) {
    ++found;
    const Sandbox sandbox;
    EXPECT_EQ(
        run_under(sandbox, {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "4"},
                  rows + Arguments{"--backend", "openmpi"}),
        "exit code 0");
    expect_served(sandbox, "openmpi", 4, 2 * 2 * 2);
  }
  if (is_built("mpich") && !find_program("mpiexec.hydra").empty()) {
    ++found;
    const Sandbox sandbox;
    EXPECT_EQ(run_under(sandbox, {"mpiexec.hydra", "-n", "4"},
                        {"comm", "--size", "64KB", "-w", "0", "-r", "2", "--backend", "mpich"}),
              "exit code 0");
    expect_served(sandbox, "mpich", 4, 1);
  }
  if (found == 0) GTEST_SKIP() << "no MPI";
}

TEST(CommUnderLaunchers, IsServedByTheRanksOfSrun) {
  if (!is_built("gloo")) GTEST_SKIP() << "no libgloo-dev";
  const Sandbox sandbox;
  MadeUpLauncher srun(sandbox, slurm_ranks(3), {tiny_comm({"--backend", "gloo"})});
  EXPECT_EQ(srun.endings(), std::vector<std::string>(3, "exit code 0")) << srun.said()[0];
  expect_served(sandbox, "gloo", 3, 2);
  EXPECT_EQ(comm_records(sandbox).at(0).settings.at("launcher").text(), "srun");
}

TEST(CommUnderLaunchers, NamesRanksThatWereStartedWithOtherFlags) {
  const Sandbox sandbox;
  MadeUpLauncher srun(
      sandbox, slurm_ranks(2),
      {tiny_comm({"--backend", "gloo"}), tiny_comm({"--backend", "gloo", "--dtype", "bf16"})});
  EXPECT_EQ(srun.endings(), std::vector<std::string>(2, "exit code 4"));
  for (const std::string& said : srun.said())
    EXPECT_TRUE(contains(said, "rank 1 (host ") && contains(said, "--dtype bf16")) << said;
}

TEST(CommUnderLaunchers, EndsOnAllRanksWhenOneDiesAndNamesIt) {
  if (!is_built("gloo")) GTEST_SKIP() << "no libgloo-dev";
  const Sandbox sandbox;
  MadeUpLauncher srun(sandbox, slurm_ranks(3),
                      {{"comm", "--backend", "gloo", "--size", "4MB", "-r", "20000"}});
  usleep(1'000'000);
  srun.kill_rank(1);
  EXPECT_EQ(srun.endings(),
            (std::vector<std::string>{"exit code 4", "signal 9 (Killed)", "exit code 4"}));
  for (const size_t survivor : {0, 2})
    EXPECT_TRUE(contains(srun.said()[survivor], "rank 1 (host ") &&
                contains(srun.said()[survivor], "has died; rank "))
        << srun.said()[survivor];
}

TEST(CommRanks, OfWhichOneIsKilledEndWithExitCodeFourAndItsName) {
  if (!is_built("gloo")) GTEST_SKIP() << "no libgloo-dev";
  for (const size_t victim : {0, 2}) {
    const Sandbox sandbox;
    ChildProcess study({RIDGELINE_BINARY, "comm", "--backend", "gloo", "--ranks", "3", "--size",
                        "4MB", "-r", "20000", "--results-dir", (sandbox / "results").string()},
                       {.merge_errors = true});
    std::vector<int> ranks;
    for (int look = 0; look < 500 && ranks.size() < 3; ++look) {
      ranks = children_of(study.id());
      usleep(10'000);
    }
    ASSERT_EQ(ranks.size(), 3u);
    usleep(700'000);
    kill(ranks[victim], SIGKILL);
    const auto said = study.read_all({.seconds = 10});
    EXPECT_EQ(study.end(0), "exit code 4");
    EXPECT_TRUE(contains(said.text, "rank " + std::to_string(victim) +
                                        " of 3 ended with signal 9 (Killed) while it was at: "))
        << said.text;
    EXPECT_TRUE(contains(said.text, "gloo all-reduce")) << said.text;
    for (const int rank : ranks) EXPECT_NE(kill(rank, 0), 0);
  }
}

}  // namespace
}  // namespace ridgeline
