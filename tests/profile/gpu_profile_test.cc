// Profiles on a GPU. RIDGELINE_PROFILE_MODEL=2.7B takes another model than small.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "base/print.h"
#include "measure/test_support.h"
#include "profile/memory_timeline.h"
#include "profile/profile_support.h"
#include "profile/recorder.h"
#include "profile/trace_check.h"
#include "support/gpu.h"

namespace ridgeline {
namespace {

constexpr double kClose = 0.02;

TransformerConfig model() {
  const char* name = std::getenv("RIDGELINE_PROFILE_MODEL");
  TransformerConfig config = transformer_config(name == nullptr ? "small" : name);
  config.batch_size = 4;
  config.context_length = 128;
  return config;
}

// CUPTI has to be there before the first device, and once in a process.
struct Tracer {
  std::string why_not;
  std::unique_ptr<ActivityTracer> tracer = open_gpu_activity(why_not);
};
Tracer& tracer() {
  static Tracer instance;
  return instance;
}

Profile profile_of(Mode mode, CudaDevice& device, ActivityTracer* tracing, bool compare) {
  Executable executable(testing::training_step(model()), device,
                        {.mode = mode, .products = DType::bf16});
  executable.prepare();
  testing::fill_inputs(executable, device);
  return record_profile(executable, device, tracing,
                        {.why_not = tracer().why_not, .compare = compare});
}

void expect_whole(const Profile& profile, Mode mode) {
  EXPECT_EQ(profile.unmapped, 0u) << info(mode).name;
  EXPECT_EQ(profile.dropped, 0u);
  EXPECT_EQ(profile.not_timed, 0u);
  std::map<uint32_t, size_t> pieces;  // by step
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (const Invocation& each : profile.invocations) {
    ++pieces[each.step];
    seen.insert({each.step, each.kernel});
    if (each.kernel == kNobody) print("not mapped: {}\n", each.work.name);
  }
  for (const auto& [step, count] : pieces) EXPECT_EQ(count, pieces[0]) << "step " << step;
  EXPECT_EQ(seen.size(), profile.steps.size() * profile.kernels.size());  // each kernel of the plan
  if (profile.captured > 0) {
    EXPECT_EQ(pieces[0], profile.captured);
  }
  const DeviceTime time = device_time(profile);
  print(
      "{}: {} kernels of the plan, {} pieces a step ({} captured), busy {:.3f} ms of {:.3f} ms a "
      "step, overlap {:.3f} ms; {}\n",
      info(mode).name, profile.kernels.size(), pieces[0], profile.captured,
      1e-6 * static_cast<double>(time.busy_ns) / static_cast<double>(profile.steps.size()),
      1e-6 * static_cast<double>(time.span_ns) / static_cast<double>(profile.steps.size()),
      1e-6 * static_cast<double>(time.overlap_ns) / static_cast<double>(profile.steps.size()),
      launch_verdict(profile) ? launch_verdict(profile)->sentence : "");
  for (const Fold& row : fold(profile, FoldBy::category))
    print("  {:14} {:6} {:10.3f} ms {:5.1f} %\n", row.key, row.invocations,
          1e-6 * static_cast<double>(row.total_ns), 100 * row.share);
}

TEST(SlowGpuProfile, EveryRecordIsMappedInEveryModeAndTracingCostsLittle) {
  Tracer& tracing = tracer();
  RIDGELINE_NEEDS_GPU();
  if (!tracing.tracer) GTEST_SKIP() << "needs CUPTI: " << tracing.why_not;
  for (const Mode mode : {Mode::vanilla, Mode::fused, Mode::flash}) {
    CudaDevice device;
    expect_whole(profile_of(mode, device, tracing.tracer.get(), false), mode);
  }
  CudaDevice device;
  const Profile profile = profile_of(Mode::compiled, device, tracing.tracer.get(), true);
  expect_whole(profile, Mode::compiled);
  EXPECT_GT(profile.captured, 0u) << "no launch graph was recorded";
  ASSERT_GT(profile.untraced_device_ms, 0);
  const DeviceTime time = device_time(profile);
  const double steps = static_cast<double>(profile.steps.size());
  const double busy = 1e-6 * static_cast<double>(time.busy_ns) / steps;
  const double span = 1e-6 * static_cast<double>(time.busy_ns + time.own_gaps_ns) / steps;
  print(
      "union {:.3f} ms, with the device's own gaps {:.3f} ms, untraced {:.3f} ms a step by the "
      "GPU; tracing costs "
      "{:.1f} % of a step\n",
      busy, span, profile.untraced_device_ms, 100 * profile.tracing_cost().value_or(0));
  // Gaps between kernels that were queued are the GPU's time as well.
  const double untraced = profile.untraced_device_ms;
  EXPECT_TRUE(std::abs(busy / untraced - 1) <= kClose || std::abs(span / untraced - 1) <= kClose)
      << "union " << busy << " ms, with gaps " << span << " ms, untraced " << untraced << " ms";

  const TempDir folder;
  write_trace(profile, folder / "trace.json.gz", {.name = "small"});
  const testing::ReadTrace trace = testing::read_trace(testing::gunzip(folder / "trace.json.gz"));
  EXPECT_EQ(testing::overlap_in(trace.events), "");
  EXPECT_EQ(testing::events_of(trace, "X", "kernel").size() +
                testing::events_of(trace, "X", "gpu_memcpy").size() +
                testing::events_of(trace, "X", "gpu_memset").size(),
            profile.invocations.size());
}

TEST(SlowGpuProfile, WithoutATracerEventsBetweenKernelsServe) {
  RIDGELINE_NEEDS_GPU();
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    CudaDevice device;
    const Profile profile = profile_of(mode, device, nullptr, true);
    expect_whole(profile, mode);
    EXPECT_GT(profile.untraced_device_ms, 0);
  }
}

TEST(SlowGpuProfile, TheTimelinesPeakIsTheLedgersAndThePrediction) {
  RIDGELINE_NEEDS_GPU();
  for (const Mode mode : {Mode::vanilla, Mode::compiled})
    for (const size_t stages : {size_t{1}, kAllStages}) {
      CudaDevice device;
      Executable executable(testing::training_step(model()), device,
                            {.mode = mode, .products = DType::bf16});
      executable.prepare();
      testing::fill_inputs(executable, device);
      const MemoryTimeline timeline = measure_memory(executable, device, stages);
      const auto peak = static_cast<double>((timeline.peak() + timeline.gaps()).count);
      EXPECT_NEAR(peak, static_cast<double>(device.ledger().peak().count), 0.01 * peak);
      EXPECT_NEAR(peak, static_cast<double>(timeline.predicted_peak.count), 0.01 * peak);
      print("{}, {}: peak {}, gaps {}, ledger {}, predicted {}\n", info(mode).name,
            stages == 1 ? "forward" : "step", to_string(timeline.peak()),
            to_string(timeline.gaps()), to_string(device.ledger().peak()),
            to_string(timeline.predicted_peak));
    }
}

}  // namespace
}  // namespace ridgeline
