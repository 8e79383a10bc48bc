// Other libraries beside ours: through a peer of the standard library alone, and PyTorch where it
// is.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/csv.h"
#include "cli/peers.h"
#include "studies/peers/implementations.h"

namespace ridgeline {
namespace {

Arguments sizes() {
  return tiny_attention({"--d-model", "4", "--seq-len", "9", "--heads", "2"});
}

TEST(Peers, StandInOneTableWithOurs) {
  REQUIRE_PYTHON();
  const Sandbox sandbox;
  const Finished run = sandbox.run(sizes() + Arguments{"--impl", "torch.naive,flash", "--causal"},
                                   with_fake_peers());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ReadResult results = sandbox.results();
  ASSERT_EQ(results.records.size(), 2u);
  const Record& peer = *find(results, "torch.naive");
  EXPECT_EQ(peer.status, Status::ok) << peer.error;
  EXPECT_EQ(peer.find_series("forward")->samples_ms, std::vector<double>(3, 1.0));
  EXPECT_EQ(peer.find_series("backward")->statistics.median_ms, 2.0);
  EXPECT_EQ(peer.protocol.iterations, 3);
  EXPECT_GE(peer.protocol.warmups, 1);
  EXPECT_EQ(peer.memory.peak, Bytes{4096});
  EXPECT_FALSE(peer.memory.predicted_peak) << "only ours is predicted";
  EXPECT_EQ(peer.verification.tensors.size(), 4u) << "output and three gradients, by our oracle";
  EXPECT_EQ((*peer.metrics)["peer"]["ran"], "right");
  EXPECT_EQ(peer.workload, find(results, "flash")->workload);
  EXPECT_EQ(peer.settings["seed"], 42);
  EXPECT_TRUE(contains(peer.command, "--impl torch.naive")) << peer.command;
  EXPECT_TRUE(contains(run.out, "torch.naive")) << run.out;
}

struct Failure {
  std::string implementation;
  Status status;
  std::string reason;
};

TEST(Peers, EveryWayToFailIsARowAndTheOthersGoOn) {
  REQUIRE_PYTHON();
  const Failure failures[] = {
      {"torch.sdpa", Status::wrong, "output is off by 0.5"},
      {"torch.sdpa.flash", Status::unsupported, "not there; next step: pip install it"},
      {"torch.sdpa.cudnn", Status::invalid, "exit code 7 before it answered: a last word"},
      {"torch.sdpa.efficient", Status::oom, "2.00 GiB"},
      {"torch.sdpa.math", Status::invalid, "is not JSON from byte 2 on: no JSON at all"},
      {"torch.flex", Status::invalid, "no time"},
      {"torch.compile", Status::invalid, "recompiled"},
  };
  std::string names = "torch.naive";
  for (const Failure& failure : failures) names += "," + failure.implementation;
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(sizes() + Arguments{"--impl", names + ",naive"}, with_fake_peers());
  EXPECT_EQ(run.exit_code, 3) << "a row was wrong: " << run.err;
  const ReadResult results = sandbox.results();
  ASSERT_EQ(results.records.size(), std::size(failures) + 2);
  for (const Failure& failure : failures) {
    const Record& record = *find(results, failure.implementation);
    EXPECT_EQ(record.status, failure.status) << failure.implementation << ": " << record.error;
    EXPECT_TRUE(contains(record.error, failure.reason)) << record.error;
    // Times of a row that is not right are kept for wrong values alone, as with our own rows.
    EXPECT_EQ(record.series.empty(), failure.status != Status::wrong) << failure.implementation;
  }
  for (const char* good : {"torch.naive", "naive"})
    EXPECT_EQ(find(results, good)->status, Status::ok) << find(results, good)->error;
}

TEST(Peers, AWrongResultInOneOfSeveralRunsIsSeenInTheEndAndWhenResumed) {
  REQUIRE_PYTHON();
  const Sandbox sandbox;
  RunOptions options = with_fake_peers();
  options.environment["FAKE_WRONG_ONCE"] = (sandbox / "marker").string();
  const Arguments study = sizes() + Arguments{"--impl", "torch.sdpa"};
  const Finished run = sandbox.run(study + Arguments{"--runs", "3"}, options);
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  EXPECT_TRUE(contains(run.err, "in 1 of 3 runs: output is off by 0.5")) << run.err;
  ASSERT_EQ(sandbox.results().records.size(), 3u);
  EXPECT_EQ(sandbox.results().records.back().status, Status::ok);
  EXPECT_EQ(sandbox.run(study + Arguments{"--resume"}, options).exit_code, 3);
}

// A peer is a program of others: whatever it answers, its row is invalid and the next one runs.
TEST(Peers, AnAnswerThatMakesNoSenseIsARowAndTheOthersGoOn) {
  REQUIRE_PYTHON();
  const std::pair<const char*, const char*> answers[] = {
      {"deep facts", "nested deeper than 64 levels"},
      {"many facts", "'facts' of 100011 bytes"},
      {"facts of text", "'facts'"},
      {"endless line", "a line longer than 4.00 MiB"},
      {"leave of text", "'leave' as \"soon\""},
      {"failed of a number", "'failed'"},
      {"error of a list", "'error'"},
      {"memory of a list", "'memory'"},
      {"negative memory", "'peak_bytes' as -5"},
      {"too much memory", "'peak_bytes'"},
      {"memory of text", "'peak_bytes'"},
      {"first run of text", "'first_run_s'"},
      {"not Unicode", "not JSON"},
      {"a list", "no JSON object: [1, 2]"},
      {"nothing", "not JSON"},
  };
  for (const auto& [answer, reason] : answers) {
    const Sandbox sandbox;
    RunOptions options = with_fake_peers();
    options.environment["FAKE_ANSWER"] = answer;
    const Finished run =
        sandbox.run(sizes() + Arguments{"--impl", "xformers,naive", "--no-verify"}, options);
    EXPECT_EQ(run.exit_code, 0) << answer << ": " << run.err << " signal " << run.signal;
    const ReadResult results = sandbox.results();
    ASSERT_EQ(results.records.size(), 2u) << answer;
    EXPECT_EQ(find(results, "xformers")->status, Status::invalid) << answer;
    EXPECT_TRUE(contains(find(results, "xformers")->error, reason))
        << answer << ": " << find(results, "xformers")->error;
    EXPECT_EQ(find(results, "naive")->status, Status::ok) << answer;
  }
}

TEST(Peers, PeakMemoryOnACpuIsTheGrowthOfTheirProcess) {
  REQUIRE_PYTHON();
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(sizes() + Arguments{"--impl", "jax.naive,flash"}, with_fake_peers());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(find(sandbox.results(), "jax.naive")->memory.process_peak_growth, Bytes{3 << 20});
  EXPECT_TRUE(contains(run.out, "3.00*")) << run.out;
  EXPECT_TRUE(contains(run.out, "* growth of the process")) << run.out;
  const Csv csv = parse_csv(read_text(sandbox.attention("attention.csv")));
  EXPECT_EQ(csv.rows.at(0).at("process_peak_growth_mb"), "3");
  EXPECT_EQ(csv.rows.at(0).at("peak_memory_mb"), "") << "the library counts none";
}

// What the scripts of real libraries measure with: 64 MiB that are touched and given back.
TEST(Peers, GrowthIsThePeakAndTheInputs) {
  REQUIRE_PYTHON();
  const std::string script =
      "import sys; sys.path.insert(0, sys.argv[1])\n"
      "from peers.process_memory import Growth\n"
      "growth = Growth(held=1 << 20)\n"
      "data = bytearray(64 << 20)\n"
      "del data\n"
      "print(growth.facts().get('process_peak_growth_bytes', 'unknown'))\n";
  ChildProcess child(
      {python().string(), "-B", "-c", script, std::string(RIDGELINE_TESTS_DIR "/..")});
  const std::string told = child.read_line({.seconds = 60}).line;
  if (told == "unknown") GTEST_SKIP() << "no /proc/self/clear_refs here";
  EXPECT_NEAR(std::stod(told), 65 << 20, 2 << 20);
}

TEST(Peers, AreLeftOutOfMemoryPredictionsAndResumed) {
  REQUIRE_PYTHON();
  const Sandbox sandbox;
  const Arguments both = sizes() + Arguments{"--impl", "torch.naive,jax.naive,naive"};
  const Finished dry = sandbox.run(both + Arguments{"--dry-run"}, with_fake_peers());
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_TRUE(contains(dry.out, "jax.naive")) << dry.out;
  ASSERT_EQ(sandbox.run(both, with_fake_peers()).exit_code, 0);
  ASSERT_EQ(sandbox.run(both + Arguments{"--resume"}, with_fake_peers()).exit_code, 0);
  expect_each_once(sandbox.results().records, 3);
}

TEST(Peers, ALibraryThatAsksToBeEndedIsStartedAnew) {
  REQUIRE_PYTHON();
  const auto processes = [](const std::string& implementation) {
    const Sandbox sandbox;
    EXPECT_EQ(
        sandbox
            .run(tiny_attention({"--d-model", "4", "--seq-len", "5,6", "--impl", implementation}),
                 with_fake_peers())
            .exit_code,
        0);
    std::vector<int> ids;
    for (const Record& record : sandbox.results().records)
      ids.push_back((*record.metrics)["peer"]["process"].get<int>());
    return ids;
  };
  const std::vector<int> kept = processes("torch.naive"), renewed = processes("jax.naive");
  ASSERT_EQ(kept.size(), 2u);
  ASSERT_EQ(renewed.size(), 2u);
  EXPECT_EQ(kept[0], kept[1]);
  EXPECT_NE(renewed[0], renewed[1]);
}

TEST(Peers, CtrlCEndsARowThatWaits) {
  REQUIRE_PYTHON();
  const Sandbox sandbox;
  Running running(sandbox.path(), sizes() + Arguments{"--impl", "torch.naive,jax.xla"},
                  with_fake_peers());
  ASSERT_TRUE(running.collect(std::chrono::seconds(30),
                              [&] { return sandbox.results().records.size() == 1; }));
  running.collect(std::chrono::milliseconds(300));
  running.send(SIGINT);
  EXPECT_EQ(running.wait().exit_code, 130);
}

TEST(Peers, KernelRowsHaveTheSameMetrics) {
  REQUIRE_PYTHON();
  const Sandbox sandbox;
  const Finished run =
      sandbox.run({"kernel", "--device", "cpu", "--threads", "1", "--num-warmup", "1",
                   "--num-iterations", "3", "--shape", "1,2,9,4", "--dtype", "fp32", "--mode",
                   "hot", "--backward", "--impl", "flash,torch.naive"},
                  with_fake_peers());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ReadResult results = read_results(sandbox / "results/kernel/kernel.jsonl");
  ASSERT_EQ(results.records.size(), 2u);
  const Record& peer = *find(results, "torch.naive");
  EXPECT_EQ(peer.status, Status::ok) << peer.error;
  EXPECT_EQ(peer.find_series("backward_host")->statistics.median_ms, 0.5);
  for (const char* pass : {"forward", "backward"})
    EXPECT_EQ((*peer.metrics)[pass]["gflops_per_s"].is_number(), true) << pass;
  // 4 B H S S d FLOPs in a quarter of a millisecond.
  EXPECT_NEAR((*peer.metrics)["forward"]["gflops_per_s"].get<double>(),
              4 * 2 * 81 * 4 / 0.25e-3 / 1e9, 1e-9);
}

TEST(Peers, WithoutAnInterpreterRowsAreUnsupported) {
  const Sandbox sandbox;
  RunOptions options = with_fake_peers();
  options.environment["RIDGELINE_PYTHON"] = "/no/such/python";
  const Finished run = sandbox.run(sizes() + Arguments{"--impl", "torch.sdpa,naive"}, options);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Record& peer = *find(sandbox.results(), "torch.sdpa");
  EXPECT_EQ(peer.status, Status::unsupported);
  for (const char* part : {"/no/such/python", "next step", "RIDGELINE_PYTHON"})
    EXPECT_TRUE(contains(peer.error, part)) << peer.error;
  EXPECT_EQ(find(sandbox.results(), "naive")->status, Status::ok);
}

TEST(Peers, WithoutTheLibraryRowsSayHowToGetIt) {
  REQUIRE_PYTHON();
  const Sandbox sandbox;
  RunOptions options = without_cuda();
  // Modules of these names come first, and cannot be imported.
  for (const char* library : {"torch", "jax"})
    write_text(sandbox / "missing" / (std::string(library) + ".py"),
               "raise ImportError('there is none here')\n");
  options.environment["PYTHONPATH"] = (sandbox / "missing").string();
  const Finished run = sandbox.run(sizes() + Arguments{"--impl", "torch.naive,jax.naive"}, options);
  EXPECT_EQ(run.exit_code, 4) << "nothing could be served: " << run.err;
  for (const char* library : {"torch", "jax"}) {
    const Record& peer = *find(sandbox.results(), std::string(library) + ".naive");
    EXPECT_EQ(peer.status, Status::unsupported) << peer.error;
    EXPECT_TRUE(contains(peer.error, "there is none here")) << peer.error;
    EXPECT_TRUE(contains(peer.error, std::string("pip install ") + library)) << peer.error;
  }
}

TEST(Peers, NamesAreThoseOfTheScripts) {
  REQUIRE_PYTHON();
  ChildProcess list({python().string(), "-B", RIDGELINE_TESTS_DIR "/../peers", "--list"});
  for (const auto peers : {kAttentionPeers, kModelPeers, kTextPeers})
    for (const PeerImplementation& peer : peers) EXPECT_EQ(list.read_line({}).line, peer.name);
  EXPECT_EQ(list.read_line({}).outcome, ChildProcess::Outcome::ended);
}

TEST(SlowPeers, RealPyTorchAgreesWithTheOracle) {
  if (!has_torch()) GTEST_SKIP() << "no PyTorch for RIDGELINE_PYTHON or python3";
  const Sandbox sandbox;
  RunOptions options = without_cuda();
  options.patience = std::chrono::seconds(240);
  const Finished run = sandbox.run(
      tiny_attention({"--d-model", "16", "--seq-len", "37", "--heads", "2", "--causal", "--impl",
                      "torch.naive,torch.sdpa,torch.sdpa.flash,torch.sdpa.math,torch.sdpa.cudnn"}),
      options);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const ReadResult results = sandbox.results();
  ASSERT_EQ(results.records.size(), 5u);
  for (const Record& record : results.records) {
    const bool is_gpus = record.implementation == "torch.sdpa.cudnn";
    EXPECT_EQ(record.status, is_gpus ? Status::unsupported : Status::ok)
        << record.implementation << ": " << record.error;
    if (record.implementation == "torch.sdpa.flash" && record.metrics) {
      EXPECT_TRUE(contains((*record.metrics)["peer"]["ran"].text(), "FlashAttentionForCpu"));
    }
  }
}

}  // namespace
}  // namespace ridgeline
