// ridgeline ddp as a user runs it: by threads, by ranks of its own, and under the launchers that
// are here.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "cli/launchers.h"

namespace ridgeline {
namespace {

Arguments tiny_ddp(const Arguments& more, const std::string& samples = "2") {
  return Arguments{"ddp", "--d-model",    "16", "--d-ff",       "24",      "--layers",
                   "2",   "--heads",      "2",  "--vocabulary", "50",      "--context-length",
                   "8",   "--batch-size", "2",  "--impl",       "vanilla", "--threads",
                   "1",   "-w",           "0",  "-r",           samples} +
         more;
}

std::vector<Record> ddp_records(const Sandbox& sandbox) {
  const ReadResult found = read_results(sandbox / "results/ddp/ddp.jsonl");
  EXPECT_TRUE(found.problems.empty());
  return found.records;
}

// All strategies, and all of them with one hash where sums have one order.
void expect_trained(const Sandbox& sandbox, const std::string& backend, int ranks, size_t rows,
                    bool has_one_order) {
  const std::vector<Record> records = ddp_records(sandbox);
  EXPECT_EQ(records.size(), rows);
  std::set<std::string> hashes;
  for (const Record& record : records) {
    EXPECT_EQ(record.status, Status::ok) << record.error;
    EXPECT_EQ(record.workload.at("backend").text(), backend);
    EXPECT_EQ(record.workload.at("ranks").get<int>(), ranks);
    const bool is_sharded = record.implementation == "sharded" || record.implementation == "fsdp";
    EXPECT_EQ(record.verification.checked, !is_sharded) << record.implementation;
    EXPECT_EQ(record.verification.tensors.size(), is_sharded ? 0u : 1u);
    for (const TensorError& each : record.verification.tensors) EXPECT_EQ(each.max_error, 0);
    EXPECT_EQ(record.series.size(), 3u);
    EXPECT_NEAR(static_cast<double>(record.memory.peak->count),
                static_cast<double>(record.memory.predicted_peak->count),
                0.01 * static_cast<double>(record.memory.predicted_peak->count))
        << record.implementation;
    EXPECT_DOUBLE_EQ(record.metrics->at("bytes_per_step").get<double>(),
                     record.metrics->at("predicted_bytes_per_step").get<double>());
    hashes.insert(record.metrics->at("parameters_hash").text());
  }
  EXPECT_TRUE(hashes.size() == 1 || !has_one_order);
}

TEST(Ddp, TrainsUnderEveryStrategyByThreads) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_ddp({"--backend", "threads", "--ranks", "3"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  expect_trained(sandbox, "threads", 3, 6, true);
  EXPECT_TRUE(contains(run.out, "same parameters, bit by bit")) << run.out;
  EXPECT_TRUE(contains(read_text(sandbox / "results/ddp/ddp.csv"), "exposed_ms"));
}

TEST(Ddp, PlansRowsAndRefusesWhatIsNone) {
  const Sandbox sandbox;
  const Finished plan = sandbox.run(tiny_ddp({"--dry-run", "--backend", "threads"}));
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_TRUE(contains(plan.out, "bucketed")) << plan.out;
  EXPECT_TRUE(sandbox.is_empty());
  for (const Arguments& bad :
       {Arguments{"--backend", "carrier-pigeon"}, Arguments{"--ranks", "0"},
        Arguments{"--strategy", "hopeful"}, Arguments{"--model-size", "xxl"}})
    EXPECT_EQ(sandbox.run(tiny_ddp(bad)).exit_code, 2) << bad[1];
}

// A step takes 16.8 MiB on a rank, and 13.9 if it recomputes results.
TEST(Ddp, RanksShareTheMemoryBudgetAndRecomputeToFitIt) {
  const Arguments study = {
      "ddp", "--d-model",        "64",   "--d-ff",       "256",     "--layers",
      "4",   "--heads",          "4",    "--vocabulary", "300",     "--batch-size",
      "8",   "--context-length", "64",   "--backend",    "threads", "--ranks",
      "2",   "--strategy",       "flat", "-w",           "0",       "-r",
      "1"};
  const Sandbox sandbox;
  const Finished run = sandbox.run(study + Arguments{"--memory-budget", "28MiB"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Record record = ddp_records(sandbox).at(0);
  ASSERT_EQ(record.status, Status::ok) << record.error;
  EXPECT_LE(2 * record.memory.peak->count, 28 << 20);
  EXPECT_EQ(record.memory.peak->count, record.memory.predicted_peak->count);
  const auto fits = [&](const char* budget) {
    const Finished plan = sandbox.run(study + Arguments{"--memory-budget", budget, "--dry-run"});
    return contains(plan.out, "MiB  yes");
  };
  EXPECT_TRUE(fits("28MiB"));
  EXPECT_FALSE(fits("20MiB")) << "one rank fits, both do not";
}

TEST(Ddp, TrainsByGlooWithRanksOfItsOwn) {
  if (!is_built("gloo")) GTEST_SKIP() << "no libgloo-dev";
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_ddp({"--backend", "gloo", "--ranks", "2"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  expect_trained(sandbox, "gloo", 2, 6, true);
}

TEST(DdpUnderLaunchers, IsServedByTheRanksOfMpirunAndMpiexec) {
  int found = 0;
  if (is_built("openmpi") && !find_program("mpirun.openmpi").empty()) {
    ++found;
    const Sandbox sandbox;
    EXPECT_EQ(
        run_under(sandbox, {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "4"},
                  tiny_ddp({"--backend", "openmpi"})),
        "exit code 0");
    expect_trained(sandbox, "openmpi", 4, 6, false);
  }
  if (is_built("mpich") && !find_program("mpiexec.hydra").empty()) {
    ++found;
    const Sandbox sandbox;
    EXPECT_EQ(run_under(sandbox, {"mpiexec.hydra", "-n", "4"},
                        tiny_ddp({"--backend", "mpich", "--strategy", "flat"})),
              "exit code 0");
    expect_trained(sandbox, "mpich", 4, 1, false);
  }
  if (found == 0) GTEST_SKIP() << "no MPI";
}

TEST(DdpUnderLaunchers, IsServedByTheRanksOfSrun) {
  if (!is_built("gloo")) GTEST_SKIP() << "no libgloo-dev";
  const Sandbox sandbox;
  MadeUpLauncher srun(sandbox, slurm_ranks(3),
                      {tiny_ddp({"--backend", "gloo", "--strategy", "naive,fsdp"})});
  EXPECT_EQ(srun.endings(), std::vector<std::string>(3, "exit code 0")) << srun.said()[0];
  expect_trained(sandbox, "gloo", 3, 2, false);
}

TEST(DdpRanks, OfWhichOneIsKilledEndWithExitCodeFourAndItsName) {
  if (!is_built("gloo")) GTEST_SKIP() << "no libgloo-dev";
  std::mt19937 random(7);
  for (const size_t victim : {0, 1, 2}) {
    const Sandbox sandbox;
    ChildProcess study(
        Arguments{RIDGELINE_BINARY} + tiny_ddp({"--backend", "gloo", "--ranks", "3",
                                                "--results-dir", (sandbox / "results").string()},
                                               "20000"),
        {.merge_errors = true});
    std::vector<int> ranks;
    for (int look = 0; look < 500 && ranks.size() < 3; ++look) {
      ranks = children_of(study.id());
      usleep(10'000);
    }
    ASSERT_EQ(ranks.size(), 3u);
    usleep(static_cast<useconds_t>(300'000 + random() % 700'000));
    kill(ranks[victim], SIGKILL);
    const auto said = study.read_all({.seconds = 10});
    EXPECT_EQ(study.end(0), "exit code 4");
    EXPECT_TRUE(contains(said.text,
                         "rank " + std::to_string(victim) + " of 3 ended with signal 9 (Killed)"))
        << said.text;
    for (const int rank : ranks) EXPECT_NE(kill(rank, 0), 0);
  }
}

}  // namespace
}  // namespace ridgeline
