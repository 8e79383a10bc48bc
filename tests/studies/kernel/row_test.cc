// Rows of the kernel study, in small, on the CPU.
#include "studies/kernel/row.h"

#include <gtest/gtest.h>

#include "measure/test_support.h"
#include "runtime/cpu_device.h"
#include "studies/kernel/calls.h"

namespace ridgeline::kernel_study_test {
namespace {

// A machine with a small cache, so that cold rows stay cheap.
Record blank() {
  Record record;
  record.machine = collect_machine_facts();
  record.machine.caches = {{3, "Unified", Bytes{1 << 20}}};
  return record;
}

KernelWorkload workload(KernelMode mode, const std::string& implementation = "flash") {
  return {{.batch_size = 2, .heads = 2, .seq_len = 48, .head_dim = 16, .dtype = DType::bf16},
          implementation,
          mode};
}

CpuOptions two_threads(Bytes budget = Bytes{64 << 20}) {
  return {.threads = 2, .ledger = {.budget = budget}};
}

KernelStudyOptions quick() {
  return {.row = {.protocol = {.warmups = 1, .iterations = 6}}, .backward = true};
}

TEST(KernelStudy, EveryModeOfTheDeviceIsMeasuredVerifiedAndAsLargeAsPredicted) {
  CpuDevice device(two_threads());
  KernelStudy study(device, quick());
  for (const std::string implementation : {"flash", "naive"})
    for (const KernelMode mode : modes_of(device)) {
      const KernelWorkload row = workload(mode, implementation);
      const bool possible = implementation == "flash" || mode != KernelMode::cold_rotate;
      const Record record = study.run(row, study.describe(row, blank())).value();
      ASSERT_EQ(record.status, possible ? Status::ok : Status::unsupported) << record.error;
      EXPECT_EQ(device.ledger().live(), Bytes{0});
      if (!possible) continue;
      EXPECT_TRUE(record.verification.checked);
      EXPECT_EQ(record.verification.tensors.size(), implementation == "flash" ? 5u : 4u);
      EXPECT_EQ(record.memory.peak, record.memory.predicted_peak) << label(row);
      for (const char* series : {"forward", "forward_host", "backward", "backward_host"})
        EXPECT_EQ(record.find_series(series)->samples_ms.size(), 6u) << series;
    }
}

TEST(KernelStudy, MetricsFollowTheirConventions) {
  CpuDevice device(two_threads());
  KernelStudy study(device, quick());
  const KernelWorkload row = workload(KernelMode::hot);
  const Record record = study.run(row, study.describe(row, blank())).value();
  const double seconds = record.find_series("forward")->statistics.median_ms / 1e3;
  const Json& forward = record.metrics.value()["forward"];
  EXPECT_NEAR(forward["gflops_per_s"].get<double>() * seconds, 4e-9 * 4 * 48 * 48 * 16, 1e-12);
  EXPECT_NEAR(forward["gb_per_s"].get<double>() * seconds, 4e-9 * 4 * 48 * 16 * 2, 1e-12);
  EXPECT_NEAR(forward["queries_per_s"].get<double>() * seconds, 4 * 48, 1e-6);
  EXPECT_GT(forward["peak_share"].get<double>(), 0);
  EXPECT_LT(forward["peak_share"].get<double>(), 1.1);
  EXPECT_GT(forward["host_us"].get<double>(), 0);
  const double backward_s = record.find_series("backward")->statistics.median_ms / 1e3;
  EXPECT_NEAR(record.metrics.value()["backward"]["gflops_per_s"].get<double>() * backward_s,
              1e-8 * 4 * 48 * 48 * 16, 1e-12);
}

TEST(KernelStudy, ForwardAloneTimesAndVerifiesForwardAlone) {
  CpuDevice device(two_threads());
  KernelStudyOptions options = quick();
  options.backward = false;
  KernelStudy study(device, options);
  const KernelWorkload row = workload(KernelMode::hot);
  const Record record = study.run(row, study.describe(row, blank())).value();
  EXPECT_EQ(record.status, Status::ok) << record.error;
  EXPECT_EQ(record.series.size(), 2u);
  EXPECT_EQ(record.verification.tensors.size(), 2u) << "output and log_sum_exp";
  EXPECT_FALSE(record.metrics->contains("backward"));
}

TEST(KernelStudy, ACpuHasNoLaunchGraphs) {
  CpuDevice device(two_threads());
  KernelStudy study(device, quick());
  const KernelWorkload row = workload(KernelMode::graph);
  const Record record = study.run(row, study.describe(row, blank())).value();
  EXPECT_EQ(record.status, Status::unsupported);
  EXPECT_HAS(record.error, "launch graphs");
  EXPECT_TRUE(record.series.empty());
}

TEST(KernelStudy, Tf32OnACpuIsUnsupported) {
  CpuDevice device(two_threads());
  KernelStudy study(device, quick());
  KernelWorkload row = workload(KernelMode::hot);
  row.config.dtype = DType::tf32;
  EXPECT_EQ(study.run(row, study.describe(row, blank()))->status, Status::unsupported);
}

TEST(KernelStudy, RotationCoversTwiceTheCache) {
  CpuDevice device(two_threads());
  const KernelStudy study(device, quick());
  const Record record = study.describe(workload(KernelMode::cold_rotate), blank());
  const int64_t inputs = fused_bytes(workload(KernelMode::hot).config, true).inputs.count;
  const int64_t copies = record.settings["copies"].get<int64_t>();
  EXPECT_GE(copies * inputs, 2 << 20);
  EXPECT_LT((copies - 1) * inputs, 2 << 20);
}

TEST(KernelStudy, TooLittleMemoryIsAStatus) {
  CpuDevice device(two_threads(Bytes{100 << 10}));
  KernelStudy study(device, quick());
  const KernelWorkload row = workload(KernelMode::cold_rotate);
  const Record record = study.run(row, study.describe(row, blank())).value();
  EXPECT_EQ(record.status, Status::oom);
  EXPECT_EQ(device.ledger().live(), Bytes{0});
}

TEST(KernelStudy, ModesAndPassesAreDifferentRows) {
  CpuDevice device(two_threads());
  KernelStudyOptions forward = quick();
  forward.backward = false;
  const KernelStudy both(device, quick()), one(device, forward);
  const std::string hot = workload_key(both.describe(workload(KernelMode::hot), blank()));
  EXPECT_NE(workload_key(both.describe(workload(KernelMode::cold), blank())), hot);
  EXPECT_NE(workload_key(one.describe(workload(KernelMode::hot), blank())), hot);
  EXPECT_EQ(workload_key(both.describe(workload(KernelMode::hot), blank())), hot);
}

TEST(KernelCalls, CopiesHoldTheSameValuesAndAreWrittenApart) {
  CpuDevice device(two_threads());
  const AttentionConfig config = workload(KernelMode::hot).config;
  const auto calls = fused_calls(config, device, {.copies = 3, .backward = true});
  calls->run_poisoned(true);
  const std::vector<double> once = calls->read("d_k", 3);
  for (int64_t copy : {2, 1}) {
    calls->forward(copy);
    calls->backward(copy);
  }
  EXPECT_EQ(calls->read("d_k", 3), once);
}

TEST(KernelShape, IsReadStrictly) {
  EXPECT_EQ(parse_kernel_shape("32,8,256,64"), (AttentionConfig{32, 8, 256, 64}));
  for (const char* text : {"", "1,2,3", "1,2,3,4,5", "1,2,3,x", "1,2,3,0", "1, 2,3,4", "-1,2,3,4"})
    EXPECT_ERROR(parse_kernel_shape(text), ErrorKind::usage, "is not a shape");
}

TEST(KernelMatrix, IsThatOfTheStudyUnlessToldOtherwise) {
  const std::vector<KernelWorkload> rows = expand_matrix(KernelMatrix{});
  ASSERT_EQ(rows.size(), 8u);
  EXPECT_EQ(label(rows.front()), "flash (1,1,128,64) fp16, hot");
  EXPECT_EQ(label(rows.back()), "flash (32,8,256,64) bf16, hot");
}

}  // namespace
}  // namespace ridgeline::kernel_study_test
