// Plans over lists of tensors, walked on the host as the kernels walk them on the device.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/params.h"

namespace ridgeline::cuda_multi_tensor_test {
namespace {

int64_t number(const CudaLaunch& launch, const std::string& name) {
  for (const auto& [key, value] : launch.kernel.constants)
    if (key == name) return std::stoll(value);
  ADD_FAILURE() << launch.kernel.file << " has no constant " << name;
  return 1;
}

template <class Params>
Params params_of(const CudaLaunch& launch) {
  Params params;
  EXPECT_EQ(launch.params.size(), sizeof params);
  std::memcpy(&params, launch.params.data(), sizeof params);
  return params;
}

// Calls use(slot, begin, end) for the piece of every block.
template <class Params, class Use>
void for_each_block(const CudaLaunch& launch, const Params& params, Use use) {
  const int64_t piece = number(launch, "PIECE");
  for (int block = 0; block < static_cast<int>(launch.grid[0]); ++block) {
    int slot = 0;
    while (slot + 1 < params.count && params.tensors[slot + 1].first_block <= block) ++slot;
    const int64_t begin = (block - params.tensors[slot].first_block) * piece;
    EXPECT_LT(begin, params.tensors[slot].count) << "a block without work";
    use(slot, begin, std::min<int64_t>(begin + piece, params.tensors[slot].count));
  }
}

struct Lists {
  // Sizes around a piece, more tensors than a launch holds, gradients of any step and alignment.
  std::vector<std::vector<float>> storage;
  std::vector<TensorView> inputs, outputs;

  TensorView made(int64_t count, int64_t step, int64_t shift) {
    storage.emplace_back(static_cast<size_t>(count * step + shift + 4), 0.0f);
    auto address = reinterpret_cast<uintptr_t>(storage.back().data());
    address = (address + 15) / 16 * 16;
    return {reinterpret_cast<float*>(address) + shift, DType::f32, {count}, {step}};
  }
};

std::vector<int64_t> sizes() {
  std::vector<int64_t> counts = {1, 3, 16383, 16384, 16385, 100000};
  for (int64_t i = 0; i < 200; ++i) counts.push_back(1 + i * 31 % 97);
  return counts;
}

CudaCall call_of(const Node& node, const Lists& lists, void* scratch) {
  static const CudaFacts facts;
  static const CudaChooser first = [](const auto&, size_t, const auto&) { return size_t{0}; };
  return {.node = node,
          .inputs = lists.inputs,
          .outputs = lists.outputs,
          .device = facts,
          .scratch = scratch,
          .choose = first};
}

TEST(CudaMultiTensor, AdamWReplacesEveryElementOnce) {
  Lists lists;
  const std::vector<int64_t> counts = sizes();
  std::vector<TensorView> kinds[4];
  for (size_t i = 0; i < counts.size(); ++i)
    for (size_t kind = 0; kind < 4; ++kind) {
      const bool is_gradient = kind == 1;
      kinds[kind].push_back(lists.made(counts[i], is_gradient && i % 5 == 0 ? 3 : 1,
                                       is_gradient && i % 7 == 0 ? 1 : 0));
    }
  lists.inputs.push_back(lists.made(kAdamWScalars, 1, 0));
  for (const auto& kind : kinds) lists.inputs.insert(lists.inputs.end(), kind.begin(), kind.end());
  for (size_t kind : {0, 2, 3})
    lists.outputs.insert(lists.outputs.end(), kinds[kind].begin(), kinds[kind].end());
  const Node node{.op = Op::adamw_update,
                  .inputs = {},
                  .attributes = {AdamWSpec{}, {}},
                  .outputs = {},
                  .name = {}};
  for (const CudaLaunch& launch : plan_adamw_update(call_of(node, lists, nullptr))) {
    const auto p = params_of<AdamWParams>(launch);
    const int64_t pack = number(launch, "PACK");
    EXPECT_EQ(p.numbers.scalars, lists.inputs[0].data);
    for_each_block(launch, p, [&](int slot, int64_t begin, int64_t end) {
      const auto& tensor = p.tensors[slot];
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.gradient) % static_cast<uintptr_t>(4 * pack),
                0u);
      EXPECT_TRUE(pack == 1 || tensor.gradient_step == 1);
      const auto* gradient = static_cast<const float*>(tensor.gradient);
      for (int64_t i = begin; i < end; ++i) {
        ++static_cast<float*>(tensor.parameter)[i];
        ++tensor.first_moment[i];
        ++tensor.second_moment[i];
        ++const_cast<float*>(gradient)[i * tensor.gradient_step];
      }
    });
  }
  for (const auto& kind : kinds)
    for (const TensorView& view : kind)
      for (int64_t i = 0; i < view.shape[0]; ++i)
        ASSERT_EQ(view.as<float>()[i * view.strides[0]], 1.0f) << i << " of " << view.shape[0];
}

TEST(CudaMultiTensor, SumsOfSquaresFillTheirScratch) {
  Lists lists;
  std::vector<TensorType> types;
  for (int64_t count : sizes()) {
    const auto i = static_cast<int64_t>(lists.inputs.size());
    lists.inputs.push_back(lists.made(count, i % 4 == 0 ? 2 : 1, i % 9 == 0 ? 3 : 0));
    types.push_back({DType::f32, {count}});
  }
  lists.outputs.push_back(lists.made(1, 1, 0));
  const Node node{
      .op = Op::sum_of_squares, .inputs = {}, .attributes = {}, .outputs = {}, .name = {}};
  std::vector<float> scratch(
      static_cast<size_t>(cuda_scratch(node, types, {}).count) / sizeof(float), 0.0f);
  const auto launches = plan_sum_of_squares(call_of(node, lists, scratch.data()));
  for (const CudaLaunch& launch : std::span(launches).first(launches.size() - 1)) {
    const auto p = params_of<SumOfSquaresParams>(launch);
    for (uint32_t block = 0; block < launch.grid[0]; ++block) ++p.sums[block];
    for_each_block(launch, p, [&](int slot, int64_t begin, int64_t end) {
      const auto* data = static_cast<const float*>(p.tensors[slot].data);
      for (int64_t i = begin; i < end; ++i) ++const_cast<float*>(data)[i * p.tensors[slot].step];
    });
  }
  for (float value : scratch) ASSERT_EQ(value, 1.0f);
  for (const TensorView& view : lists.inputs)
    for (int64_t i = 0; i < view.shape[0]; ++i)
      ASSERT_EQ(view.as<float>()[i * view.strides[0]], 1.0f);
  const auto last = params_of<ReduceParams>(launches.back());
  EXPECT_EQ(last.data, scratch.data());
  EXPECT_EQ(last.out, lists.outputs[0].data);
}

}  // namespace
}  // namespace ridgeline::cuda_multi_tensor_test
