// ridgeline kernel as a user runs it, in small.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/open_device.h"
#include "cli/run_ridgeline.h"
#include "measure/record_json.h"

namespace ridgeline {
namespace {

Arguments tiny_kernel(const Arguments& more) {
  return Arguments{"kernel", "--device",         "cpu", "--threads", "1",        "--num-warmup",
                   "1",      "--num-iterations", "4",   "--shape",   "1,2,32,16"} +
         more;
}

ReadResult kernel_results(const Sandbox& sandbox) {
  return read_results(sandbox / "results/kernel/kernel.jsonl");
}

TEST(Kernel, WritesRecordsJsonAndCsv) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(tiny_kernel({"--mode", "hot", "--shape", "2,1,16,32", "--output", "more.md"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ReadResult results = kernel_results(sandbox);
  EXPECT_TRUE(results.problems.empty());
  ASSERT_EQ(results.records.size(), 4u) << "two shapes, fp16 and bf16";
  for (const Record& record : results.records) {
    EXPECT_EQ(record.status, Status::ok) << record.error;
    EXPECT_EQ(record.find_series("forward")->samples_ms.size(), 4u);
    EXPECT_TRUE(contains(record.command, "ridgeline kernel --device cpu")) << record.command;
  }
  EXPECT_EQ(Json::parse(read_text(sandbox / "results/kernel/kernel.json")).size(), 4u);
  EXPECT_TRUE(contains(read_text(sandbox / "results/kernel/kernel.csv"), "peak_share"));
  EXPECT_TRUE(contains(read_text(sandbox / "more.md"), "| flash |"));
  EXPECT_TRUE(contains(run.out, "an FMA as two")) << "the convention is printed";
}

TEST(Kernel, ResumeRunsOnlyWhatIsMissing) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(tiny_kernel({"--mode", "hot", "--dtype", "fp32"})).exit_code, 0);
  const Arguments both = tiny_kernel({"--mode", "hot", "--dtype", "fp32,bf16", "--resume"});
  ASSERT_EQ(sandbox.run(both).exit_code, 0);
  ASSERT_EQ(sandbox.run(both).exit_code, 0);
  expect_each_once(kernel_results(sandbox).records, 2);
}

TEST(Kernel, ARowThatTheDeviceCannotServeIsARecord) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_kernel({"--mode", "hot,graph", "--dtype", "fp32"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const ReadResult results = kernel_results(sandbox);
  ASSERT_EQ(results.records.size(), 2u);
  EXPECT_EQ(results.records[1].status, Status::unsupported);
}

TEST(Kernel, HeadsThatAreTooWideForFlashDoNotEndTheSweep) {
  const Sandbox sandbox;
  const Arguments rows = tiny_kernel({"--mode", "hot", "--dtype", "fp32", "--shape", "1,1,16,512"});
  const Finished dry = sandbox.run(rows + Arguments{"--dry-run"});
  EXPECT_TRUE(contains(dry.out, "unsupported")) << dry.out;
  EXPECT_EQ(sandbox.run(rows).exit_code, 0);
  const ReadResult results = kernel_results(sandbox);
  ASSERT_EQ(results.records.size(), 2u);
  EXPECT_EQ(results.records[0].status, Status::ok);
  EXPECT_EQ(results.records[1].status, Status::unsupported);
  const std::string advice = "use ";
  const std::string& error = results.records[1].error;
  ASSERT_TRUE(contains(error, advice)) << error;
  const std::string other = error.substr(error.find(advice) + advice.size());
  EXPECT_EQ(sandbox.run(rows + Arguments{"--impl", other}).exit_code, 0) << error;
}

TEST(Kernel, NothingThatCanBeServedIsExit4) {
  const Sandbox sandbox;
  EXPECT_EQ(sandbox.run(tiny_kernel({"--mode", "hot", "--dtype", "tf32"})).exit_code, 4);
}

TEST(Kernel, DryRunAndListRunNothing) {
  const Sandbox sandbox;
  const Finished dry = sandbox.run(tiny_kernel({"--dry-run", "--mode", "hot", "--causal"}));
  EXPECT_EQ(dry.exit_code, 0);
  EXPECT_TRUE(contains(dry.out, "flash (1,2,32,16) fp16 causal, hot")) << dry.out;
  const Finished list = sandbox.run({"kernel", "--list"});
  EXPECT_EQ(list.exit_code, 0);
  for (const char* part : {"cold-rotate", "32,8,256,64", "naive"})
    EXPECT_TRUE(contains(list.out, part)) << part;
  EXPECT_TRUE(sandbox.is_empty());
}

TEST(Device, IsReadFromItsName) {
  EXPECT_EQ(parse_device("auto").kind, DeviceChoice::Kind::automatic);
  EXPECT_EQ(parse_device("cpu").kind, DeviceChoice::Kind::cpu);
  EXPECT_EQ(parse_device("cuda").ordinal, 0);
  EXPECT_EQ(parse_device("cuda:3").kind, DeviceChoice::Kind::cuda);
  EXPECT_EQ(parse_device("cuda:3").ordinal, 3);
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda3", "CPU"})
    EXPECT_ERROR(parse_device(text), ErrorKind::usage, "is not a device");
}

// A machine without a driver has no GPU to be missed; one whose driver fails has.
TEST(Device, AutoFallsBackToTheCpuAndSaysWhyIfThereIsADriver) {
  Arguments arguments = tiny_kernel({"--mode", "hot", "--dtype", "fp32", "--dry-run"});
  arguments[2] = "auto";
  const Sandbox sandbox;
  const Finished without = sandbox.run(arguments, without_cuda());
  EXPECT_EQ(without.exit_code, 0) << without.err;
  EXPECT_EQ(without.err, "");
  EXPECT_TRUE(contains(without.out, "1 threads")) << without.out;

  const TempDir libraries;
  std::filesystem::copy_file(FAKE_DRIVER, libraries / "libcuda.so.1");
  RunOptions options;
  options.environment = {{"RIDGELINE_CUDA_LIBRARIES", libraries.path()}};
  const Finished failing = sandbox.run(arguments, options);
  EXPECT_EQ(failing.exit_code, 0) << failing.err;
  EXPECT_TRUE(failing.err.starts_with("ridgeline: running on the CPU: ")) << failing.err;
  EXPECT_EQ(std::count(failing.err.begin(), failing.err.end(), '\n'), 1) << failing.err;

  arguments[2] = "cuda";
  EXPECT_EQ(sandbox.run(arguments, options).exit_code, 4);
}

}  // namespace
}  // namespace ridgeline
