// Launches that are planned once and moved to other memory are those that would be planned there.
#include "runtime/cuda/movable_launches.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "kernels/cuda/kernels.h"

namespace ridgeline::movable_launches_test {
namespace {

struct Problem {
  Node node;
  std::vector<TensorView> inputs, outputs;
};

// Addresses of real memory have low bits, and high ones that no stand-in has.
void* somewhere(std::mt19937_64& random, uintptr_t low) {
  return reinterpret_cast<void*>(((random() >> 18) & ~uintptr_t{0xFFF}) + low);
}

Problem random_problem(std::mt19937_64& random) {
  const auto pick = [&](std::initializer_list<int64_t> list) {
    return list.begin()[random() % list.size()];
  };
  const auto dtype =
      static_cast<DType>(pick({static_cast<int64_t>(DType::f32), static_cast<int64_t>(DType::bf16),
                               static_cast<int64_t>(DType::f16)}));
  const int64_t batch = pick({1, 3}), key_heads = pick({1, 2}),
                heads = key_heads * pick({1, 4, 40, 133}), queries = pick({1, 100, 4096}),
                keys = pick({1, 300, 4096}), width = pick({16, 40, 64, 128, 256});
  const Shape q = {batch, heads, queries, width}, k = {batch, key_heads, keys, width},
              rows = {batch, heads, queries};
  const auto low = static_cast<uintptr_t>(pick({0, 0, 0, 4}));
  const auto tensor = [&](DType type, const Shape& shape) {
    return TensorView{somewhere(random, low), type, shape, contiguous_strides(shape)};
  };
  AttentionSpec spec{.scale = 0.125};
  spec.mask.causal = pick({0, 1}) == 1;
  spec.mask.window = spec.mask.causal ? pick({0, 50}) : 0;
  if (pick({0, 1}) == 1) spec.backward = BackwardAlgorithm::two_pass;
  Problem problem;
  problem.node.op = pick({0, 1}) == 0 ? Op::attention : Op::attention_gradient;
  problem.node.attributes.detail = spec;
  problem.inputs = {tensor(dtype, q), tensor(dtype, k), tensor(dtype, k)};
  if (problem.node.op == Op::attention) {
    problem.outputs = {tensor(dtype, q), tensor(DType::f32, rows)};
  } else {
    problem.inputs.insert(problem.inputs.end(),
                          {tensor(dtype, q), tensor(DType::f32, rows), tensor(dtype, q)});
    problem.outputs = {tensor(dtype, q), tensor(dtype, k), tensor(dtype, k)};
  }
  return problem;
}

TEST(MovableLaunches, AreThoseThatArePlannedAtTheOtherAddresses) {
  std::mt19937_64 random(1);
  int drawing = 0;
  const CudaChooser first = [](const std::string&, size_t, const auto&) { return size_t{0}; };
  for (int round = 0; round < 3000; ++round) {
    CudaFacts facts;
    facts.compute_capability = round % 3 == 0 ? 80 : round % 3 == 1 ? 89 : 90;
    facts.multiprocessors = 132;
    facts.shared_bytes_per_block = facts.compute_capability == 80   ? 163 << 10
                                   : facts.compute_capability == 89 ? 99 << 10
                                                                    : 227 << 10;
    facts.l2_bytes = 50 << 20;
    Problem problem = random_problem(random);
    const auto plan = [&](std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                          void* scratch) {
      return cuda_op(problem.node.op)
          .plan({.node = problem.node,
                 .inputs = inputs,
                 .outputs = outputs,
                 .device = facts,
                 .scratch = scratch,
                 .choose = first});
    };
    MovableLaunches moved =
        plan_movable(problem.inputs, problem.outputs, somewhere(random, 0), plan);
    EXPECT_FALSE(moved.slots.empty());
    std::vector<void*> addresses;
    for (std::vector<TensorView>* views : {&problem.inputs, &problem.outputs})
      for (TensorView& view : *views) {
        view.data = somewhere(random, reinterpret_cast<uintptr_t>(view.data) % kAddressUnit);
        addresses.push_back(view.data);
      }
    addresses.push_back(somewhere(random, 0));
    moved.move_to(addresses);
    const std::vector<CudaLaunch> fresh = plan(problem.inputs, problem.outputs, addresses.back());
    ASSERT_EQ(moved.launches.size(), fresh.size());
    for (size_t i = 0; i < fresh.size(); ++i) {
      EXPECT_EQ(moved.launches[i].kernel, fresh[i].kernel);
      EXPECT_EQ(moved.launches[i].grid, fresh[i].grid);
      EXPECT_EQ(moved.launches[i].params, fresh[i].params) << "round " << round << " launch " << i;
      drawing += fresh[i].kernel.entry == "flash_forward_begin" ? 1 : 0;
    }
  }
  EXPECT_GT(drawing, 10);
}

// A planner that keeps an address in a way that nobody can see: half of it.
TEST(MovableLaunches, AreRefusedWhereAnAddressIsHidden) {
  const Shape shape = {4};
  const TensorView view{reinterpret_cast<void*>(uintptr_t{0x7000}), DType::f32, shape,
                        contiguous_strides(shape)};
  const auto plan = [](std::span<const TensorView> inputs, std::span<const TensorView>, void*) {
    CudaLaunch launch;
    launch.set_params(reinterpret_cast<uintptr_t>(inputs[0].data) / 2);
    return std::vector<CudaLaunch>{launch};
  };
  EXPECT_THROW(plan_movable({&view, 1}, {}, nullptr, plan), Error);
}

}  // namespace
}  // namespace ridgeline::movable_launches_test
