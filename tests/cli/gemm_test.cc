// ridgeline gemm, roofline and frontier as a user runs them, in small.
#include <gtest/gtest.h>

#include <set>

#include "cli/run_ridgeline.h"

namespace ridgeline {
namespace {

Arguments tiny_gemm(const Arguments& more) {
  return Arguments{"gemm", "--device",         "cpu", "--threads", "1", "--num-warmup",
                   "1",    "--num-iterations", "4",   "--size",    "24"} +
         more;
}

Arguments tiny_roofline(const Arguments& more) {
  return Arguments{"roofline", "--device",      "cpu", "--threads",     "1",    "--memory-budget",
                   "64MiB",    "--settle-time", "1ms", "--time-budget", "10ms", "--size",
                   "64"} +
         more;
}

std::vector<Record> records_without_problems(const Sandbox& sandbox, const std::string& study) {
  const ReadResult found = read_results(sandbox / ("results/" + study + "/" + study + ".jsonl"));
  EXPECT_TRUE(found.problems.empty());
  return found.records;
}

TEST(Gemm, WritesRecordsAndCsvForEveryRung) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_gemm({"--dtype", "fp32,bf16", "--output", "more.md"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Record> records = records_without_problems(sandbox, "gemm");
  ASSERT_EQ(records.size(), 2u * 2 * 4) << "dtypes, ops, implementations";
  for (const Record& record : records) {
    EXPECT_EQ(record.status, Status::ok) << record.error;
    EXPECT_EQ(record.find_series("forward")->samples_ms.size(), 4u) << "no time budget then";
    EXPECT_TRUE(contains(record.command, "--shape 24,")) << record.command;
  }
  const std::string csv = read_text(sandbox / "results/gemm/gemm.csv");
  EXPECT_TRUE(contains(csv, "macs,flops,io_bytes,arithmetic_intensity")) << csv;
  EXPECT_TRUE(contains(read_text(sandbox / "more.md"), "| tiled |"));
  EXPECT_TRUE(contains(run.out, "`ridgeline roofline` measures them")) << run.out;
}

// A gemm of size 1 is the gemv of size 1, and a shape may be one that a size makes.
TEST(Gemm, AProblemOfTwoNamesIsMeasuredOnce) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"gemm", "--device", "cpu", "--threads", "1", "--num-warmup",
                                    "1", "--num-iterations", "1", "--impl", "naive", "--size",
                                    "1,4", "--shape", "4,4,4"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  std::set<std::string> problems;
  const std::vector<Record> records = records_without_problems(sandbox, "gemm");
  for (const Record& record : records) problems.insert(record.workload.dump());
  EXPECT_EQ(problems.size(), 3u) << "1x1x1, 4x4x4 and 4x1x4";
  EXPECT_EQ(records.size(), problems.size());
}

TEST(Gemm, ResumeDryRunListAndBadUsage) {
  const Sandbox sandbox;
  EXPECT_EQ(sandbox.run(tiny_gemm({"--dry-run"})).exit_code, 0);
  const Finished list = sandbox.run({"gemm", "--list"});
  EXPECT_TRUE(contains(list.out, "simd")) << list.out;
  EXPECT_TRUE(sandbox.is_empty());
  for (const Arguments& bad :
       {Arguments{"--impl", "fast"}, Arguments{"--shape", "1,2"}, Arguments{"--op", "axpy"},
        Arguments{"--dtype", "int8"}, Arguments{"--mode", "warm"}}) {
    const Finished run = sandbox.run(tiny_gemm(bad));
    EXPECT_EQ(run.exit_code, 2) << bad[1];
    EXPECT_FALSE(run.err.empty());
  }
  ASSERT_EQ(sandbox.run(tiny_gemm({"--impl", "naive"})).exit_code, 0);
  const Arguments all = tiny_gemm({"--impl", "naive,library", "--resume"});
  ASSERT_EQ(sandbox.run(all).exit_code, 0);
  ASSERT_EQ(sandbox.run(all).exit_code, 0);
  expect_each_once(records_without_problems(sandbox, "gemm"), 4);
}

TEST(Roofline, CeilingsThenOpsBelowThem) {
  const Sandbox sandbox;
  const Finished measured =
      sandbox.run(tiny_roofline({"--dtype", "fp32", "--save-baseline", "ceilings"}));
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_TRUE(contains(sandbox.run({"history", "--baselines"}).out, "ceilings"));
  EXPECT_TRUE(contains(measured.out, "ridge FLOP/byte")) << measured.out;
  for (const Cache& cache : collect_machine_facts().caches)
    if (cache.size > Bytes{64 << 20}) {
      EXPECT_TRUE(contains(measured.err, "raise --memory-budget")) << measured.err;
    }
  const std::vector<Record> ceilings = records_without_problems(sandbox, "roofline");
  std::set<std::string> probes;
  for (const Record& record : ceilings) {
    EXPECT_EQ(record.status, Status::ok) << record.implementation << ' ' << record.error;
    probes.insert(record.implementation);
  }
  for (const char* probe : {"library", "simd", "fma", "copy", "triad", "copy-streaming"})
    EXPECT_TRUE(probes.contains(probe)) << probe;

  const Finished gemm = sandbox.run(tiny_gemm({"--impl", "naive,library"}));
  ASSERT_EQ(gemm.exit_code, 0) << gemm.err;
  for (const Record& record : records_without_problems(sandbox, "gemm"))
    EXPECT_TRUE((*record.metrics)["forward"].contains("ceiling_share"));
  const Finished placed =
      sandbox.run(tiny_roofline({"--stored", "results/gemm/gemm.jsonl",
                                 "results/roofline/roofline.jsonl", "--dtype", "fp32"}));
  ASSERT_EQ(placed.exit_code, 0) << placed.err;
  EXPECT_TRUE(contains(placed.out, "measured ops on the roofline")) << placed.out;
  EXPECT_TRUE(contains(placed.out, "FLOP per byte)")) << placed.out;
  EXPECT_FALSE(contains(placed.out, "have no place here")) << "ceilings are no ops";
  EXPECT_TRUE(contains(read_text(sandbox / "results/roofline/points.csv"), "bound by"));

  // Ceilings of one thread are none for two.
  const Finished threads =
      sandbox.run({"roofline", "--device", "cpu", "--stored", "--threads", "2"});
  EXPECT_EQ(threads.exit_code, 2) << threads.out;
  EXPECT_TRUE(contains(threads.err, "2 threads")) << threads.err;
  ASSERT_EQ(sandbox
                .run({"gemm", "--device", "cpu", "--threads", "2", "--num-iterations", "4",
                      "--size", "24", "--impl", "library"})
                .exit_code,
            0);
  for (const Record& record : records_without_problems(sandbox, "gemm"))
    EXPECT_FALSE((*record.metrics)["forward"].contains("ceiling_share"));
}

TEST(Roofline, UsageErrorsAndTheTableOfGpus) {
  const Sandbox sandbox;
  const Finished list = sandbox.run({"roofline", "--list"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_TRUE(contains(list.out, "RTX A6000")) << list.out;
  EXPECT_EQ(sandbox.run(tiny_roofline({"--dry-run"})).exit_code, 0);
  EXPECT_EQ(sandbox.run(tiny_roofline({"--stored"})).exit_code, 2) << "nothing is stored";
  EXPECT_EQ(sandbox.run(tiny_roofline({"--stored", "--save-baseline", "x"})).exit_code, 2);
  EXPECT_EQ(sandbox.run(tiny_roofline({"--stored", "missing.jsonl"})).exit_code, 2);
  EXPECT_EQ(sandbox.run(tiny_roofline({"--settle-time", "soon"})).exit_code, 2);
  EXPECT_TRUE(sandbox.is_empty());
  for (const char* content : {"", "garbage\n", "{\"a\":1}\n"}) {
    write_text(sandbox / "bad.jsonl", content);
    const Finished run = sandbox.run(tiny_roofline({"--stored", "bad.jsonl"}));
    EXPECT_EQ(run.exit_code, 2) << content;
    EXPECT_TRUE(contains(run.err, "no record in bad.jsonl can be read")) << run.err;
  }
}

Arguments tiny_frontier(const Arguments& more) {
  return Arguments{"frontier", "--device",     "cpu", "--threads", "1",  "--memory-budget",
                   "4MiB",     "--batch-size", "1",   "--d-model", "16", "--step",
                   "16"} +
         more;
}

TEST(Frontier, IsConfirmedByProbesInChildren) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_frontier({}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Record> records = records_without_problems(sandbox, "frontier");
  ASSERT_EQ(records.size(), 2u);
  for (const Record& record : records) {
    ASSERT_EQ(record.status, Status::ok) << record.error;
    const Json& metrics = *record.metrics;
    EXPECT_EQ(metrics["seq_len"], metrics["predicted_seq_len"]);
    EXPECT_EQ(metrics["first_oom_seq_len"], metrics["seq_len"].get<int64_t>() + 16);
    EXPECT_EQ(metrics["probes"].size(), 2u);
    EXPECT_EQ(record.memory.peak, record.memory.predicted_peak);
  }
  EXPECT_GT((*records[1].metrics)["seq_len"].get<int>(),
            (*records[0].metrics)["seq_len"].get<int>())
      << "flash reaches further than naive";
  EXPECT_TRUE(contains(run.out, "times the sequence of naive")) << run.out;
  EXPECT_TRUE(contains(read_text(sandbox / "results/frontier/frontier.csv"), "first_oom_seq_len"));
}

TEST(Frontier, ADryRunSaysWhereTheEndOfTheSearchStoppedIt) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_frontier({"--dry-run", "--max-seq-len", "1030"}));
  EXPECT_TRUE(contains(run.out, "1024, all of --max-seq-len")) << run.out << "flash has room";
  const Finished far = sandbox.run(tiny_frontier({"--dry-run"}));
  EXPECT_FALSE(contains(far.out, "--max-seq-len")) << far.out;
}

TEST(Frontier, ARowThatWasCutOffIsNotKeptWhenMoreIsAllowed) {
  const Sandbox sandbox;
  const auto longest = [&](const Arguments& more) {
    const Finished run =
        sandbox.run(tiny_frontier(Arguments{"--impl", "flash", "--resume"} + more));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const Record record = records_without_problems(sandbox, "frontier").back();
    EXPECT_TRUE(contains(record.command, "--max-seq-len")) << record.command;
    return (*record.metrics)["seq_len"].get<int64_t>();
  };
  EXPECT_EQ(longest({"--max-seq-len", "64"}), 64);
  EXPECT_GT(longest({"--save-baseline", "frontier"}), 64);
  EXPECT_TRUE(contains(sandbox.run({"history", "--baselines"}).out, "frontier"));
}

// The budget allows what the machine refuses: the child is the one that fails.
TEST(Frontier, AProbeThatDiesIsAResult) {
  const Sandbox sandbox;
  RunOptions options;
  options.limits = {{RLIMIT_AS, rlim_t{700} << 20}};
  const Finished run =
      sandbox.run({"frontier", "--device", "cpu", "--threads", "1", "--memory-budget", "2GiB",
                   "--batch-size", "1", "--d-model", "64", "--step", "1024", "--impl", "flash",
                   "--run-limit", "0", "--max-probes", "3"},
                  options);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Record record = records_without_problems(sandbox, "frontier").at(0);
  const Json& metrics = *record.metrics;
  EXPECT_NE(metrics["probes"][0]["outcome"], "fits") << metrics.dump();
}

}  // namespace
}  // namespace ridgeline
