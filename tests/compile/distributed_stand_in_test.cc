// Collectives of graphs on a GPU that stands in for one (tests/jit/fake_gpu.cc): by a stand-in of
// NCCL, and staged through the host. Kernels of that GPU do nothing, so that graphs have none.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <thread>

#include "compile/executable.h"
#include "dist/device_communicator.h"
#include "dist/threads_backend.h"
#include "graph/tensor.h"
#include "jit/run_child.h"
#include "runtime/cuda/cuda_device.h"
#include "support/stand_in_gpu.h"

namespace ridgeline {
namespace {

constexpr int64_t kReducedElements = 7;  // which two ranks cannot share out evenly

Graph collectives_alone(int ranks) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {kReducedElements}});
  const Tensor shard = reduce_scatter(x, {ranks, "scatter"});
  graph.mark_output("shard", shard.value());
  graph.mark_output("gathered", all_gather(shard, kReducedElements, {ranks, "gather"}).value());
  graph.mark_output("sum", all_reduce(x, {ranks, "sum"}).value());
  return graph;
}

std::vector<float> read(Device& device, const TensorView& view) {
  std::vector<float> values(static_cast<size_t>(element_count(view.shape)));
  device.download(view, values.data());
  return values;
}

void run_rank(Communicator& host, const std::string& backend, Mode mode) {
  CudaDevice device;
  const auto over_device = make_device_communicator(host, *device.communication_queue(), backend);
  EXPECT_EQ(over_device->facts().is_queued, backend == "nccl");
  const int ranks = host.size(), rank = host.rank();
  Executable step([&](const Rewrite&) { return collectives_alone(ranks); }, device,
                  {.mode = mode, .communicator = over_device.get()});
  step.prepare();
  for (int run = 0; run < 4; ++run) {  // the second one is recorded where that can be
    std::vector<float> mine, sums;
    for (int64_t i = 0; i < kReducedElements; ++i) {
      mine.push_back(static_cast<float>(100 * rank + i + run));
      float sum = 0;
      for (int r = 0; r < ranks; ++r) sum += static_cast<float>(100 * r + i + run);
      sums.push_back(sum);
    }
    device.upload(step.input("x"), mine.data());
    if (run > 1 && mode == Mode::compiled && backend == "nccl")
      continue;  // replays do nothing here
    step.run();
    device.synchronize();
    const std::string where =
        fmt::format("{} {}, rank {}, run {}", backend, info(mode).name, rank, run);
    EXPECT_EQ(read(device, step.output("gathered")), sums) << where;
    EXPECT_EQ(read(device, step.output("sum")), sums) << where;
    const Shard part = shard_of(kReducedElements, rank, ranks);
    std::vector<float> shard(sums.begin() + part.begin, sums.begin() + part.begin + part.count);
    shard.resize(
        static_cast<size_t>(shard_of(kReducedElements, 0, ranks).count));  // zeros behind it
    EXPECT_EQ(read(device, step.output("shard")), shard) << where;
    const std::vector<CollectiveRun> runs = step.collectives();
    EXPECT_EQ(runs.size(), 3u) << where;
    for (const CollectiveRun& each : runs) EXPECT_GE(each.ended_ns, each.began_ns) << where;
  }
}

void run_ranks(int ranks, const std::string& backend) {
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    ThreadGroup group(ranks);
    std::vector<std::unique_ptr<Communicator>> hosts;
    for (int rank = 0; rank < ranks; ++rank) hosts.push_back(group.communicator(rank));
    std::vector<std::jthread> threads;
    for (const auto& host : hosts) threads.emplace_back([&] { run_rank(*host, backend, mode); });
  }
}

TEST(Child, DISABLED_RanksByNccl) {
  for (const int ranks : {1, 2, 3}) run_ranks(ranks, "nccl");
}

TEST(Child, DISABLED_RanksThroughTheHost) {
  for (const int ranks : {1, 2, 3}) run_ranks(ranks, "threads");
}

class StandInRanks : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Backends, StandInRanks,
                         ::testing::Values("RanksByNccl", "RanksThroughTheHost"));

TEST_P(StandInRanks, HaveTheSumsOfAll) {
  RIDGELINE_NEEDS_NVRTC();
  const testing::StandInGpu gpu;
  std::filesystem::create_symlink(FAKE_NCCL, std::filesystem::path(gpu.path()) / "libnccl.so.2");
  const ChildResult child = run_child(GetParam(), {{"RIDGELINE_CUDA_LIBRARIES", gpu.path()}});
  EXPECT_EQ(child.exit_code, 0) << child.out << child.err;
  EXPECT_TRUE(contains(child.out, "1 test")) << child.out;
}

}  // namespace
}  // namespace ridgeline
