// Multiprocessors that kernels leave free while ranks communicate.
#include "runtime/collectives.h"

#include <gtest/gtest.h>

#include "dist/silent_communicator.h"
#include "graph/tensor.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "support/gpu.h"

namespace ridgeline::collectives_test {
namespace {

class NotingDevice : public CpuDevice {
 public:
  NotingDevice() : CpuDevice({.threads = 1}) {}
  void leave_free(int multiprocessors) override { left_free = multiprocessors; }
  int left_free = 0;
};

TEST(Collectives, KernelsLeaveMultiprocessorsFreeUntilAllAreJoined) {
  Graph graph;
  const Tensor sum = all_reduce(input(graph, "x", {DType::f32, {4}}), {2, "sum"});
  const Node& node = graph.node(sum.value());
  NotingDevice device;
  const auto communicator = make_silent_communicator(
      {.backend = "any", .library = "any", .size = 2, .multiprocessors = 16});
  Collectives collectives(device, communicator.get());
  float values[4] = {};
  const TensorView view{values, DType::f32, {4}, {1}};
  collectives.begin_run();
  collectives.start(0, node, "first", view, view);
  EXPECT_EQ(device.left_free, 16);
  collectives.start(1, node, "second", view, view);
  collectives.join(0);
  EXPECT_EQ(device.left_free, 16) << "the second one is under way";
  collectives.join(1);
  EXPECT_EQ(device.left_free, 0);
  collectives.start(2, node, "third", view, view);
  collectives.drop_all();
  EXPECT_EQ(device.left_free, 0) << "after an error";
}

// A product of as many tiles as there are multiprocessors takes longer on a quarter of them.
TEST(Collectives, ProductsOfAGpuLeaveThemFree) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  const int64_t n = 4096;
  const Allocation memory = device.ledger().allocate({3 * n * n * 2}, "matrices");
  const auto matrix = [&](int64_t i) {
    return TensorView{
        static_cast<char*>(memory.data()) + i * n * n * 2, DType::bf16, {n, n}, {n, 1}};
  };
  for (int64_t i = 0; i < 3; ++i) device.clear(matrix(i));
  const auto best_ms = [&](int left_free) {
    device.leave_free(left_free);
    double best = INFINITY;
    const std::function<void()> multiply = [&] {
      device.multiply({matrix(0), matrix(1), matrix(2)});
    };
    for (int i = 0; i < 6; ++i) best = std::min(best, device.time_ms(multiply));
    return best;
  };
  const int all = device.facts().multiprocessors;
  const double whole = best_ms(0), quarter = best_ms(all - all / 4), again = best_ms(0);
  EXPECT_GT(quarter, 2 * std::max(whole, again)) << whole << " and " << again << " ms on all";
}

}  // namespace
}  // namespace ridgeline::collectives_test
