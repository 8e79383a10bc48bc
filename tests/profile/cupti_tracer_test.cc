#include <gtest/gtest.h>

#include "profile/fake_libraries.h"
#include "runtime/activity.h"
#include "runtime/cuda/cupti_api.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

using testing::FakeCupti;
using testing::Told;

TEST(CuptiTracer, WorkBelongsToTheMarkItWasStartedUnder) {
  FakeCupti fake;
  std::string why_not;
  const auto tracer = open_gpu_activity(fake.library, why_not);
  ASSERT_TRUE(tracer) << why_not;
  EXPECT_EQ(tracer->description(), "CUPTI 13.0");
  tracer->begin(7);
  fake.launch("softmax_forward");
  fake.launch("splitKreduce");  // a call may be several kernels
  tracer->end();
  fake.launch("nobodys");
  fake.call<void(const char*)>("fake_launch_without_times")("lost");
  const Activity activity = tracer->take();
  ASSERT_EQ(activity.work.size(), 3u);
  EXPECT_EQ(activity.work[0].name, "softmax_forward");
  EXPECT_EQ(activity.owner(activity.work[0]), 7u);
  EXPECT_EQ(activity.owner(activity.work[1]), 7u);
  EXPECT_FALSE(activity.owner(activity.work[2]));
  EXPECT_EQ(activity.not_timed, 1u);
  EXPECT_EQ(activity.dropped, 2u);
  EXPECT_EQ(activity.work[0].grid[0], 132);
  EXPECT_EQ(activity.work[0].block[0], 256);
  EXPECT_EQ(activity.work[0].registers_per_thread, 64);
  EXPECT_EQ(activity.work[0].shared_bytes, 1024);
  EXPECT_EQ(activity.work[0].stream, 13u);
  EXPECT_EQ(activity.work[0].end_ns - activity.work[0].begin_ns, 100);
  ASSERT_EQ(activity.calls.size(), 3u);
  EXPECT_EQ(activity.calls[0].name, "cuLaunchKernelEx");
  EXPECT_EQ(activity.calls[0].correlation, activity.work[0].correlation);
  EXPECT_TRUE(tracer->take().work.empty());  // it was taken
  EXPECT_TRUE(tracer->stop());
}

TEST(CuptiTracer, WorkOfALaunchGraphBelongsToTheMarkItWasCapturedUnder) {
  FakeCupti fake;
  std::string why_not;
  const auto tracer = open_gpu_activity(fake.library, why_not);
  ASSERT_TRUE(tracer) << why_not;
  for (const uint64_t mark : {3, 4, 5}) {
    tracer->begin(mark);
    fake.call<void(const char*)>("fake_capture")("captured");
    tracer->end();
  }
  fake.call<void()>("fake_instantiate")();
  for (const uint64_t start : {100, 101}) {
    tracer->begin(start);
    fake.call<void()>("fake_start_graph")();
    tracer->end();
  }
  const Activity activity = tracer->take();
  ASSERT_EQ(activity.work.size(), 6u);
  EXPECT_EQ(activity.captured, 3u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(activity.owner(activity.work[i]), 3 + i % 3);
    EXPECT_EQ(activity.started_under(activity.work[i]), 100 + i / 3);
    EXPECT_EQ(activity.work[i].graph, 9u);
  }
}

TEST(CuptiTracer, AnotherSubscriberIsASentence) {
  FakeCupti fake;
  cupti::Subscriber other = nullptr;  // a profiler that was attached before us
  ASSERT_EQ(fake.call<cupti::Result(cupti::Subscriber*, cupti::CallbackFunction, void*)>(
                "cuptiSubscribe")(&other, nullptr, nullptr),
            cupti::kSuccess);
  std::string why_not;
  EXPECT_FALSE(open_gpu_activity(fake.library, why_not));
  EXPECT_HAS(why_not, "another profiler");
}

TEST(CuptiTracer, ADriverThatForbidsItIsASentence) {
  const Told told("forbidden");
  FakeCupti fake;
  std::string why_not;
  EXPECT_FALSE(open_gpu_activity(fake.library, why_not));
  EXPECT_HAS(why_not, "administrators");
}

TEST(CuptiTracer, NoLibraryIsASentenceThatSaysHowToGetIt) {
  const TempDir folder;
  const CudaLibrary library = find_cuda_library(
      "cupti", {.variable = [&](const char* name) -> std::string {
        return std::string_view(name) == "RIDGELINE_CUDA_LIBRARIES" ? folder.path().string() : "";
      }});
  std::string why_not;
  EXPECT_FALSE(open_gpu_activity(library, why_not));
  EXPECT_HAS(why_not, "pip install nvidia-cuda-cupti");
}

}  // namespace
}  // namespace ridgeline
