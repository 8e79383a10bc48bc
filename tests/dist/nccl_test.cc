// NCCL with one rank on one GPU: every collective, one after an event, and captured in a launch
// graph. Needs a GPU and NCCL.
#include "dist/nccl_communicator.h"

#include <gtest/gtest.h>

#include "jit/cuda_libraries.h"
#include "support/expect.h"
#include "support/gpu.h"

namespace ridgeline {
namespace {

TEST(Nccl, OfOneRankServesEveryCollectiveAndIsCaptured) {
  RIDGELINE_NEEDS_GPU();
  std::string id;
  try {
    id = make_nccl_id();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  CudaDevice device;
  const auto communicator =
      make_nccl_communicator({.rank = 0, .size = 1, .id = id}, *device.communication_queue());
  EXPECT_EQ(communicator->facts().library.substr(0, 5), "NCCL ");
  constexpr int64_t kCount = 10'000;
  std::vector<float> values(kCount), seen(kCount);
  for (int64_t i = 0; i < kCount; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i);
  const Allocation from = device.ledger().allocate(Bytes{4 * kCount}, "from");
  const Allocation to = device.ledger().allocate(Bytes{4 * kCount}, "to");
  const TensorView in{from.data(), DType::f32, {kCount}, {1}};
  const TensorView out{to.data(), DType::f32, {kCount}, {1}};
  device.upload(in, values.data());
  const auto start = [&](CollectiveKind kind) {
    return communicator->start({.kind = kind, .count = kCount, .in = from.data(), .out = to.data()},
                               {device.queued_work()});
  };
  for (const CollectiveInfo& collective : collective_kinds()) {
    device.poison(out);
    start(collective.kind)->wait();
    device.download(out, seen.data());
    EXPECT_EQ(seen, values) << collective.name;
  }
  const auto recorded = device.record([&] { device.wait_for(*start(CollectiveKind::all_reduce)); });
  for (int time = 0; time < 2; ++time) {
    device.poison(out);
    recorded();
    device.synchronize();
    device.download(out, seen.data());
    EXPECT_EQ(seen, values) << "replay " << time;
  }
}

TEST(Nccl, ThatIsNotHereSaysHowToGetIt) {
  if (cuda_library("nccl")) GTEST_SKIP() << "NCCL is here";
  EXPECT_ERROR(make_nccl_id(), ErrorKind::unsupported, "nvidia-nccl");
}

}  // namespace
}  // namespace ridgeline
