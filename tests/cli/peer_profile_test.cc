// ridgeline profile of other libraries: by a stand-in whose profiles are made up, and PyTorch where
// it is.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/csv.h"
#include "cli/peers.h"
#include "studies/profile/fold_rows.h"

namespace ridgeline {
namespace {

Arguments profile_beside(const std::string& implementations, const Arguments& more = {}) {
  return Arguments{"profile",
                   "--device",
                   "cpu",
                   "--threads",
                   "1",
                   "--schedule",
                   "wait=0,warmup=1,active=2",
                   "--impl",
                   implementations} +
         more;
}

Arguments of_model(const std::string& implementations) {
  return profile_beside(implementations,
                        {"--layers", "1", "--heads", "2", "--d-model", "8", "--d-ff", "12",
                         "--vocabulary", "10", "--context-length", "4", "--batch-size", "3"});
}

ReadResult profiles_in(const Sandbox& sandbox) {
  return read_results(sandbox / "results/profile/profile.jsonl");
}

double total_of(const Record& record, const char* by, const std::string& key) {
  for (const FoldRow& row : fold_rows(record, by))
    if (row.key == key) return row.total_ms.value();
  return -1;
}

TEST(PeerProfiles, StandInOneTableWithOurs) {
  REQUIRE_PYTHON();
  const Sandbox sandbox;
  const Finished run = sandbox.run(of_model("torch.eager,vanilla"), with_fake_peers());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ReadResult results = profiles_in(sandbox);
  ASSERT_EQ(results.records.size(), 2u);
  const Record &peer = *find(results, "torch.eager"), &ours = *find(results, "vanilla");
  ASSERT_EQ(peer.status, Status::ok) << peer.error;
  EXPECT_EQ(peer.workload, ours.workload);
  EXPECT_EQ(peer.memory.peak, Bytes{4096});
  EXPECT_EQ(total_of(peer, "phase", "forward"), 3);
  EXPECT_EQ(total_of(peer, "phase", "backward"), 3);
  EXPECT_EQ(total_of(peer, "phase", "(no phase)"), 1);
  EXPECT_EQ(total_of(peer, "category", "gemm"), 5) << "nvjet is one";
  EXPECT_EQ(total_of(peer, "category", "softmax"), 1);
  EXPECT_EQ(total_of(peer, "category", "memory"), 1);
  const Json& metrics = *peer.metrics;
  EXPECT_EQ(metrics["source"], "made up");
  EXPECT_EQ(metrics["steps"], 2);
  EXPECT_EQ(metrics["starts"], 3) << "two kernels and one graph";
  EXPECT_EQ(metrics["traced_step_ms"], 10.0);
  EXPECT_EQ(metrics["untraced_step_ms"], 8.0);
  EXPECT_EQ(metrics["device_time"]["busy_ms"], 7.0);
  EXPECT_EQ(metrics["device_time"]["span_ms"], 8.0);
  EXPECT_EQ(metrics["unmapped"], 2);
  for (const FoldRow& row : fold_rows(peer, "kernel"))
    EXPECT_FALSE(row.flops_per_s) << "costs of others are not known";
  // What identifies the model reached the worker.
  const Json& request = metrics["peer"]["request"];
  EXPECT_EQ(request["model"].dump(),
            R"({"d_model":8,"d_ff":12,"layers":1,"heads":2,"vocabulary":10,"context_length":4,)"
            R"("batch_size":3})");
  EXPECT_EQ(request["precision"], "fp32");
  EXPECT_EQ(request["scenario"], "full-step");
  EXPECT_EQ(peer.settings["optimizer"], "pytorch") << "which is what ran";
  EXPECT_TRUE(std::filesystem::exists(sandbox / metrics["trace"].text()));
  for (const char* part : {"modes side by side", "torch.eager", "nvjet_tst_128x64"})
    EXPECT_TRUE(contains(run.out, part)) << part << run.out;
  EXPECT_TRUE(contains(peer.command, "--impl torch.eager")) << peer.command;
  const Csv csv = parse_csv(read_text(sandbox / "results/profile/profile.csv"));
  EXPECT_TRUE(std::ranges::any_of(csv.rows, [](const auto& row) {
    return row.at("implementation") == "torch.eager" && row.at("name") == "nvjet_tst_128x64" &&
           row.at("phase") == "backward" && row.at("invocations") == "2" &&
           row.at("flops_per_s").empty();
  }));
  ASSERT_EQ(sandbox.run(of_model("torch.eager,vanilla") + Arguments{"--resume"}, with_fake_peers())
                .exit_code,
            0);
  expect_each_once(profiles_in(sandbox).records, 2);
}

TEST(PeerProfiles, AttentionIsThatOfTheAttentionStudy) {
  REQUIRE_PYTHON();
  const Sandbox sandbox;
  const Finished run = sandbox.run(
      profile_beside("torch.naive,naive", {"--attention", "--seq-len", "16", "--head-dim", "8",
                                           "--batch-size", "2", "--scenario", "forward"}),
      with_fake_peers());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ReadResult results = profiles_in(sandbox);
  const Record& peer = *find(results, "torch.naive");
  ASSERT_EQ(peer.status, Status::ok) << peer.error;
  EXPECT_EQ(peer.workload, find(results, "vanilla")->workload);
  const Json& request = (*peer.metrics)["peer"]["request"];
  EXPECT_EQ(request["shape"].dump(), "[2,1,16,8]");
  EXPECT_EQ(request["gradients"], false);
}

TEST(PeerProfiles, AnAnswerThatMakesNoSenseIsARowAndTheOthersGoOn) {
  REQUIRE_PYTHON();
  const std::pair<const char*, const char*> answers[] = {
      {"no profile", "without 'profile'"}, {"negative time", "the time of work as -1"}};
  for (const auto& [answer, reason] : answers) {
    const Sandbox sandbox;
    RunOptions options = with_fake_peers();
    options.environment["FAKE_ANSWER"] = answer;
    const Finished run = sandbox.run(of_model("torch.sdpa,torch.eager"), options);
    EXPECT_EQ(run.exit_code, 0) << answer << ": " << run.err << " signal " << run.signal;
    const ReadResult results = profiles_in(sandbox);
    ASSERT_EQ(results.records.size(), 2u) << answer;
    EXPECT_EQ(find(results, "torch.sdpa")->status, Status::invalid) << answer;
    EXPECT_TRUE(contains(find(results, "torch.sdpa")->error, reason))
        << answer << ": " << find(results, "torch.sdpa")->error;
    EXPECT_EQ(find(results, "torch.eager")->status, Status::ok) << answer;
  }
}

TEST(PeerProfiles, WithoutAnInterpreterRowsAreUnsupported) {
  const Sandbox sandbox;
  RunOptions options = with_fake_peers();
  options.environment["RIDGELINE_PYTHON"] = "/no/such/python";
  const Finished run = sandbox.run(of_model("torch.eager,vanilla"), options);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Record& peer = *find(profiles_in(sandbox), "torch.eager");
  EXPECT_EQ(peer.status, Status::unsupported);
  for (const char* part : {"/no/such/python", "next step", "RIDGELINE_PYTHON"})
    EXPECT_TRUE(contains(peer.error, part)) << peer.error;
  EXPECT_TRUE(contains(run.err, "torch.eager: unsupported")) << run.err;
}

TEST(PeerProfiles, NamesOfTheOtherKindAreRefusedWithThoseThereAre) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(of_model("torch.flex"), with_fake_peers());
  EXPECT_EQ(run.exit_code, 2) << run.err;
  for (const char* part : {"'torch.flex'", "torch.eager", "torch.compile", "vanilla"})
    EXPECT_TRUE(contains(run.err, part)) << run.err;
}

// A trace as torch.profiler exports it: a product that runs after its phase has ended, a launch
// graph of backward, a fill of which only the operation is known, a copy of which nothing is, and
// what is outside of steps.
constexpr const char* kGpuTrace = R"({"traceEvents": [
  {"ph": "X", "cat": "user_annotation", "name": "ridgeline: step", "ts": 10, "dur": 90},
  {"ph": "X", "cat": "user_annotation", "name": "ridgeline: forward", "ts": 11, "dur": 9},
  {"ph": "X", "cat": "user_annotation", "name": "ridgeline: backward", "ts": 20.5, "dur": 9.5},
  {"ph": "X", "cat": "gpu_user_annotation", "name": "ridgeline: forward", "ts": 30, "dur": 9},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 12, "dur": 2, "args": {"correlation": 7}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "ts": 21, "dur": 3, "args": {"correlation": 8}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "ts": 31, "dur": 60, "args": {"correlation": 9}},
  {"ph": "X", "cat": "kernel", "name": "nvjet", "ts": 40, "dur": 10.25, "args": {"correlation": 7}},
  {"ph": "X", "cat": "kernel", "name": "a", "ts": 51, "dur": 1, "args": {"correlation": 8}},
  {"ph": "X", "cat": "kernel", "name": "b", "ts": 52, "dur": 1, "args": {"correlation": 8}},
  {"ph": "X", "cat": "cpu_op", "name": "aten::zero_", "ts": 15, "dur": 2, "args": {"External id": 3}},
  {"ph": "X", "cat": "gpu_memset", "name": "Memset", "ts": 54, "dur": 2, "args": {"correlation": 10, "External id": 3}},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy", "ts": 60, "dur": 1, "args": {}},
  {"ph": "X", "cat": "kernel", "name": "early", "ts": 1, "dur": 1, "args": {"correlation": 1}},
  {"ph": "i", "name": "an instant"}]})";

// An operation inside of another, and one after them that calls its own name.
constexpr const char* kCpuTrace = R"({"traceEvents": [
  {"ph": "X", "cat": "user_annotation", "name": "ridgeline: step", "ts": 10, "dur": 90},
  {"ph": "X", "cat": "user_annotation", "name": "ridgeline: optimizer", "ts": 10, "dur": 50},
  {"ph": "X", "cat": "cpu_op", "name": "outer", "ts": 20, "dur": 10, "tid": 1},
  {"ph": "X", "cat": "cpu_op", "name": "inner", "ts": 22, "dur": 7, "tid": 1},
  {"ph": "X", "cat": "cpu_op", "name": "after", "ts": 70, "dur": 5, "tid": 1},
  {"ph": "X", "cat": "cpu_op", "name": "after", "ts": 71, "dur": 3, "tid": 1}]})";

std::string steps_in(const char* trace, bool on_gpu) {
  const std::string script =
      "import json, sys; sys.path.insert(0, sys.argv[1])\n"
      "from peers.kineto_trace import steps_of\n"
      "print(json.dumps(steps_of(json.loads(sys.argv[2]), sys.argv[3] == 'gpu')))\n";
  ChildProcess child({python().string(), "-B", "-c", script, RIDGELINE_TESTS_DIR "/..", trace,
                      on_gpu ? "gpu" : "cpu"});
  return child.read_line({.seconds = 60}).line;
}

TEST(PeerProfiles, WorkHasThePhaseOfTheCallThatStartedIt) {
  REQUIRE_PYTHON();
  EXPECT_EQ(
      steps_in(kGpuTrace, true),
      R"([{"begin_ns": 0, "end_ns": 90000, "names": ["nvjet", "a", "b", "Memset", "Memcpy", )"
      R"("cudaLaunchKernel", "cudaGraphLaunch"], )"
      R"("calls": [[5, 2000, 2000], [6, 11000, 3000]], )"
      R"("work": [[0, 0, 0, 30000, 10250, 0], [1, 0, 1, 41000, 1000, 1], )"
      R"([2, 0, 1, 42000, 1000, 1], [3, 2, 0, 44000, 2000, -1], [4, 1, -1, 50000, 1000, -1]]}])");
}

TEST(PeerProfiles, OperationsOfACpuHaveTheirOwnTimeAndDoNotOverlap) {
  REQUIRE_PYTHON();
  EXPECT_EQ(steps_in(kCpuTrace, false),
            R"([{"begin_ns": 0, "end_ns": 90000, "names": ["outer", "inner", "after"], )"
            R"("calls": [], "work": [[0, 0, 2, 10000, 3000, -1], [1, 0, 2, 13000, 7000, -1], )"
            R"([2, 0, -1, 60000, 5000, -1]]}])");
}

TEST(SlowPeers, RealPyTorchIsProfiledInEveryPhase) {
  if (!has_torch()) GTEST_SKIP() << "no PyTorch for RIDGELINE_PYTHON or python3";
  const Sandbox sandbox;
  RunOptions options = without_cuda();
  options.patience = std::chrono::seconds(240);
  const Finished run = sandbox.run(of_model("torch.eager,torch.sdpa,vanilla"), options);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ReadResult results = profiles_in(sandbox);
  for (const char* name : {"torch.eager", "torch.sdpa"}) {
    const Record& peer = *find(results, name);
    ASSERT_EQ(peer.status, Status::ok) << peer.error;
    for (const char* phase : {"forward", "backward", "optimizer"})
      EXPECT_GT(total_of(peer, "phase", phase), 0) << name << " " << phase;
    EXPECT_GT(total_of(peer, "category", "gemm"), 0);
    EXPECT_EQ((*peer.metrics)["peer"]["parameters"], peer.workload["num_params"]);
  }
}

}  // namespace
}  // namespace ridgeline
