// Plans of the CUDA kernels, walked on the host as the kernels walk them on the device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "jit/cuda_jit.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/params.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/walk.h"
#include "support/random_view.h"

namespace ridgeline::cuda_planners_test {
namespace {

std::string constant(const CudaLaunch& launch, const std::string& name) {
  for (const auto& [key, value] : launch.kernel.constants)
    if (key == name) return value;
  ADD_FAILURE() << launch.kernel.file << " has no constant " << name;
  return "0";
}
int64_t number(const CudaLaunch& launch, const std::string& name) {
  return std::stoll(constant(launch, name));
}

template <class Params>
Params params_of(const CudaLaunch& launch) {
  Params params;
  EXPECT_EQ(launch.params.size(), sizeof params);
  std::memcpy(&params, launch.params.data(), sizeof params);
  return params;
}

int64_t offset_of(int64_t index, int64_t axes, const unsigned long long* sizes,
                  const long long* steps) {
  int64_t offset = 0;
  for (int64_t axis = axes - 1; axis >= 0; --axis) {
    const auto size = static_cast<int64_t>(sizes[axis]);
    offset += (axis > 0 ? index % size : index) * steps[axis];
    if (axis > 0) index /= size;
  }
  return offset;
}

void expect_aligned(const void* data, int64_t offset, int64_t pack, int size) {
  EXPECT_EQ((reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(offset * size)) %
                static_cast<uintptr_t>(pack * size),
            0u);
}

CudaCall call_of(const Node& node, std::span<const TensorView> inputs, const TensorView& out,
                 void* scratch = nullptr) {
  static const CudaFacts facts;
  static const CudaChooser first = [](const auto&, size_t, const auto&) { return size_t{0}; };
  return {.node = node,
          .inputs = inputs,
          .outputs = {&out, 1},
          .device = facts,
          .scratch = scratch,
          .choose = first};
}

Node node_of(Op op, TensorType type) {
  return {.op = op, .inputs = {}, .attributes = {}, .outputs = {std::move(type)}, .name = {}};
}

void copy_on_host(const CudaLaunch& launch) {
  const auto p = params_of<PointwiseParams>(launch);
  const int64_t pack = number(launch, "PACK"), axes = number(launch, "AXES");
  const WalkOperand& from = p.operands[0];
  const WalkOperand& to = p.operands[3];
  EXPECT_EQ(p.tail != 0, number(launch, "TAIL") == 1);
  EXPECT_GE(int64_t{launch.grid[0]} * 1024, p.items);
  for (int64_t item = 0; item < p.items; ++item) {
    const int64_t at = offset_of(item, axes, p.sizes, from.steps);
    const int64_t out = offset_of(item, axes, p.sizes, to.steps);
    const bool packed = constant(launch, "KIND0") == "kPacked";
    const int64_t count = p.tail != 0 && item + 1 == p.items ? p.tail : pack;
    if (packed) expect_aligned(from.data, at, pack, 4);
    expect_aligned(to.data, out, pack, 4);
    for (int64_t i = 0; i < count; ++i)
      static_cast<int*>(to.data)[out + i] = static_cast<int*>(from.data)[at + (packed ? i : 0)];
  }
}

// What is started to take gradients of attention in one pass, on a GPU like the H200.
std::vector<CudaLaunch> backward_launches(const Shape& q, const Shape& k,
                                          const AttentionMask& mask) {
  CudaFacts facts{.compute_capability = 90, .multiprocessors = 132};
  facts.shared_bytes_per_block = 227 << 10;
  facts.l2_bytes = 60 << 20;
  static const CudaChooser first = [](const auto&, size_t, const auto&) { return size_t{0}; };
  const auto view = [](const Shape& shape, DType dtype = DType::bf16) {
    return TensorView{reinterpret_cast<void*>(uintptr_t{1} << 40), dtype, shape,
                      contiguous_strides(shape)};
  };
  const TensorView inputs[] = {
      view(q), view(k), view(k), view(q), view({q[0], q[1], q[2]}, DType::f32), view(q)};
  const TensorView outputs[] = {view(q), view(k), view(k)};
  Node node = node_of(Op::attention_gradient, {DType::bf16, q});
  node.attributes.detail =
      AttentionSpec{.scale = 0.125, .mask = mask, .backward = BackwardAlgorithm::single_pass};
  return plan_attention_gradient({.node = node,
                                  .inputs = inputs,
                                  .outputs = outputs,
                                  .device = facts,
                                  .scratch = reinterpret_cast<void*>(uintptr_t{1} << 41),
                                  .choose = first});
}

// A block of whole heads stores, adds to and converts dQ without clearing it: each tile of queries
// is seen by adjacent tiles of keys, and by one at least.
TEST(CudaPlanners, BlocksOfWholeHeadsReachEveryQueryAndKey) {
  using Alignment = AttentionMask::Alignment;
  int whole = 0, others = 0;
  for (int64_t heads : {1, 40, 132, 300})
    for (int64_t group : {1, 4})
      for (auto [queries, keys] : {std::pair<int64_t, int64_t>{100, 100},
                                   {300, 120},
                                   {64, 128},
                                   {500, 500},
                                   {200, 700},
                                   {700, 200},
                                   {1024, 1024}})
        for (const AttentionMask& mask : {AttentionMask{},
                                          {.causal = true},
                                          {.causal = true, .alignment = Alignment::bottom_right},
                                          {.causal = true, .window = 90},
                                          {.alignment = Alignment::bottom_right, .window = 90}}) {
          const std::vector<CudaLaunch> launches =
              backward_launches({1, heads * group, queries, 64}, {1, heads, keys, 64}, mask);
          const auto main = std::ranges::find(launches, "flash_backward_warpgroups",
                                              [](const CudaLaunch& l) { return l.kernel.entry; });
          if (main == launches.end()) continue;
          SCOPED_TRACE(fmt::format("{} heads in groups of {}, {} x {}, window {}", heads, group,
                                   queries, keys, mask.window));
          const bool converts = launches.back().kernel.entry == "flash_backward_end";
          const bool clears = number(launches.front(), "CLEARS") != 0;
          if (number(*main, "WHOLE_HEADS") == 0) {
            ++others;
            EXPECT_TRUE(number(*main, "SINGLE_PASS") == 0 || (clears && converts));
            continue;
          }
          ++whole;
          EXPECT_FALSE(clears || converts);
          EXPECT_LE(main->grid[0], std::min<uint32_t>(132, static_cast<uint32_t>(heads)));
          const auto p = params_of<FlashBackwardParams>(*main);
          std::vector<int> last_seen(static_cast<size_t>(p.query_tiles), -1);
          for (int tile = 0; tile < p.key_tiles; ++tile) {
            bool sees = false;
            for (int query_tile = 0; query_tile < p.query_tiles; ++query_tile) {
              bool any = false;
              for (int q = query_tile * 64; q < std::min<int>((query_tile + 1) * 64, p.queries);
                   ++q)
                any |= mask.causal || mask.window > 0
                           ? std::max({tile * 128, q + p.mask_first, 0}) <
                                 std::min({(tile + 1) * 128, q + p.mask_last, p.keys})
                           : true;
              int& last = last_seen[static_cast<size_t>(query_tile)];
              if (any) {
                EXPECT_TRUE(last == -1 || last == tile - 1) << "tiles of keys are not adjacent";
                last = tile;
              }
              sees |= any;
            }
            EXPECT_TRUE(sees) << "tile " << tile << " of keys is not seen";
          }
          EXPECT_EQ(std::ranges::count(last_seen, -1), 0) << "queries without keys";
        }
  EXPECT_GT(whole, 50);
  EXPECT_GT(others, 20);
}

TEST(CudaPlanners, CopiesReachEveryElementOfAnyView) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    testing::RandomViewMaker random(seed);
    const Shape shape = random.shape(1 + static_cast<int>(random.below(5)));
    std::vector<int> source(static_cast<size_t>(random.space_for(shape)));
    std::iota(source.begin(), source.end(), 1);
    const TensorView from = random.view(source.data(), DType::i32, shape);
    std::vector<int> result(static_cast<size_t>(element_count(shape)), 0);
    const TensorView to{result.data(), DType::i32, shape, contiguous_strides(shape)};
    copy_on_host(plan_copy(from, to));
    const Walk walk = make_walk(shape, {&from, 1});
    for (size_t i = 0; i < result.size(); ++i)
      ASSERT_EQ(result[i], from.as<int>()[walk.element_offset(0, static_cast<int64_t>(i))])
          << "seed " << seed << ", element " << i;
  }
}

TEST(CudaPlanners, ContiguousCopiesMoveSixteenBytesAtATime) {
  alignas(16) static float data[64];
  const TensorView from{data, DType::f32, {4, 16}, {16, 1}};
  const CudaLaunch launch = plan_copy(from, from);
  EXPECT_EQ(constant(launch, "PACK"), "4");
  EXPECT_EQ(constant(launch, "AXES"), "1");
  const TensorView odd{data + 1, DType::f32, {4, 15}, {15, 1}};
  EXPECT_EQ(constant(plan_copy(odd, odd), "PACK"), "1");
}

TEST(CudaPlanners, ConstantsTravelByValue) {
  float two = 2;
  alignas(16) static float data[8];
  const TensorView x{data, DType::f32, {8}, {1}};
  const TensorView inputs[] = {x, {&two, DType::f32, {}, {}, true}};
  const CudaLaunch launch = plan_pointwise_op(Op::multiply, inputs, x);
  EXPECT_EQ(constant(launch, "KIND1"), "kValue");
  EXPECT_EQ(std::bit_cast<float>(params_of<PointwiseParams>(launch).operands[1].bits), 2.0f);
  EXPECT_EQ(params_of<PointwiseParams>(launch).operands[1].data, nullptr);
}

TEST(CudaPlanners, RowsAreHeldOnceByTheirGroups) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (Op op : {Op::softmax, Op::softmax_gradient})
      for (int64_t width : {1,    2,    3,    31,   32,    64,    100,   256,   1000,  1024,  1025,
                            2048, 4096, 8190, 8192, 16383, 16384, 20000, 32768, 32769, 100000}) {
        const Shape shape = {3, width};
        const TensorView x{reinterpret_cast<void*>(0x1000), dtype, shape, {width, 1}};
        const TensorView inputs[] = {x, x};
        const Node node = node_of(op, {dtype, shape});
        const size_t count = op == Op::softmax ? 1 : 2;
        const auto launches = cuda_op(op).plan(call_of(node, {inputs, count}, x));
        ASSERT_EQ(launches.size(), 1u);
        const CudaLaunch& launch = launches[0];
        const int64_t group = number(launch, "GROUP"), threads = number(launch, "THREADS");
        const int64_t held = group * number(launch, "CHUNKS") * number(launch, "PACK");
        const bool is_long = launch.kernel.entry.ends_with("_long");
        EXPECT_EQ(width % number(launch, "PACK"), 0);
        EXPECT_EQ(threads, launch.threads);
        EXPECT_TRUE(group == threads || (group <= 32 && threads % group == 0)) << width;
        EXPECT_TRUE(is_long || held >= width) << width;
        EXPECT_GE(int64_t{launch.grid[0]} * (threads / group), 3);
        EXPECT_TRUE(width > 16384 || !is_long) << width;  // memory is read once
      }
}

void reduce_on_host(const CudaLaunch& launch) {
  const auto p = params_of<ReduceParams>(launch);
  const int64_t pack = number(launch, "PACK");
  const bool by_columns = launch.kernel.entry == "reduce_columns";
  const int64_t lanes = by_columns ? pack : 1;  // results of an item of the kept axes
  const int64_t kept_axes = number(launch, "KEPT_AXES");
  const int64_t reduced_axes = number(launch, "REDUCED_AXES");
  const int64_t group = number(launch, "GROUP"), threads = number(launch, "THREADS");
  const int64_t items_of_block = by_columns ? 32 : threads / group;
  EXPECT_GE(launch.grid[0] * items_of_block * lanes, p.results);
  EXPECT_GE(launch.grid[1] * p.part_size, p.reduced);
  EXPECT_LT((launch.grid[1] - 1) * p.part_size, p.reduced);  // no part is empty
  for (int64_t part = 0; part < launch.grid[1]; ++part)
    for (int64_t item = 0; item * lanes < p.results; ++item)
      for (int64_t lane = 0; lane < lanes; ++lane) {
        float total = 0;
        const int64_t end = std::min<int64_t>((part + 1) * p.part_size, p.reduced);
        for (int64_t k = part * p.part_size; k < end; ++k) {
          const int64_t at = offset_of(item, kept_axes, p.kept_sizes, p.kept_steps) +
                             offset_of(k, reduced_axes, p.reduced_sizes, p.reduced_steps);
          expect_aligned(p.data, at, pack, 4);
          for (int64_t i = 0; i < (by_columns ? 1 : pack); ++i)
            total += static_cast<const float*>(p.data)[at + (by_columns ? lane : i)];
        }
        static_cast<float*>(p.out)[part * p.results + item * lanes + lane] = total * p.scale;
      }
}

void expect_reduction(const TensorView& x, const Shape& result_shape, uint64_t seed) {
  const Node node = node_of(Op::sum, {DType::f32, result_shape});
  std::vector<float> result(static_cast<size_t>(element_count(result_shape)), -1);
  const TensorView out{result.data(), DType::f32, result_shape, contiguous_strides(result_shape)};
  const TensorType type{DType::f32, x.shape};
  std::vector<float> scratch(static_cast<size_t>(cuda_scratch(node, {&type, 1}, {}).count) / 4, -1);
  for (const CudaLaunch& launch :
       plan_reduction(call_of(node, {&x, 1}, out, scratch.empty() ? nullptr : scratch.data()))) {
    const auto p = params_of<ReduceParams>(launch);
    ASSERT_TRUE(launch.grid[1] == 1 ||
                launch.grid[1] * p.results <= static_cast<int64_t>(scratch.size()))
        << "seed " << seed;
    reduce_on_host(launch);
  }
  std::vector<float> expected(result.size(), 0);
  TensorView target = out;
  target.data = expected.data();
  for (int axis = 0; axis < target.shape.rank(); ++axis)
    if (target.shape[axis] != x.shape[axis]) target.strides[axis] = 0;
  target.shape = x.shape;
  const TensorView both[] = {x, target};
  const Walk walk = make_walk(x.shape, both);
  for (int64_t i = 0; i < element_count(x.shape); ++i)
    expected[static_cast<size_t>(walk.element_offset(1, i))] +=
        x.as<float>()[walk.element_offset(0, i)];
  ASSERT_EQ(result, expected) << "seed " << seed;
}

TEST(CudaPlanners, ReductionsFoldEveryElementOnce) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    testing::RandomViewMaker random(seed);
    const Shape shape = random.shape(1 + static_cast<int>(random.below(4)));
    std::vector<float> source(static_cast<size_t>(random.space_for(shape)));
    for (float& value : source) value = static_cast<float>(random.below(8));
    Shape result = shape;
    for (int64_t& size : std::span(&result[0], static_cast<size_t>(result.rank())))
      if (random.below(2) == 0) size = 1;
    expect_reduction(random.view(source.data(), DType::f32, shape), result, seed);
  }
}

TEST(CudaPlanners, LongReductionsAreCutIntoParts) {
  std::vector<float> source(300 * 1000, 1);
  for (const Shape& result : {Shape{1, 1000}, Shape{300, 1}, Shape{1, 1}}) {
    const TensorView x{source.data(), DType::f32, {300, 1000}, {1000, 1}};
    expect_reduction(x, result, 0);
  }
  const TensorView column{source.data(), DType::f32, {100000, 3}, {3, 1}};
  expect_reduction(column, {1, 3}, 0);
  const Node node = node_of(Op::sum, {DType::f32, {1, 3}});
  const TensorType type{DType::f32, {100000, 3}};
  EXPECT_GT(cuda_scratch(node, {&type, 1}, {}).count, 0);
}

void concat_on_host(const CudaLaunch& launch) {
  const auto p = params_of<ConcatParams>(launch);
  const int64_t pack = number(launch, "PACK");
  EXPECT_GE(int64_t{launch.grid[0]} * 1024, p.items);
  for (int64_t item = 0; item < p.items; ++item) {
    const int64_t rest = item / p.inner;
    const int64_t along = rest % p.axis_size;
    int part = 0;
    while (along >= p.parts[part].end) ++part;
    const auto& from = p.parts[part];
    const int64_t at =
        (along - from.begin) * from.axis_step +
        offset_of(rest / p.axis_size, number(launch, "OUTER_AXES"), p.outer_sizes,
                  from.outer_steps) +
        offset_of(item % p.inner, number(launch, "INNER_AXES"), p.inner_sizes, from.inner_steps);
    expect_aligned(from.data, at, pack, 4);
    expect_aligned(p.out, item * pack, pack, 4);
    for (int64_t i = 0; i < pack; ++i)
      static_cast<int*>(p.out)[item * pack + i] = static_cast<const int*>(from.data)[at + i];
  }
}

TEST(CudaPlanners, ConcatPutsEveryElementInItsPlace) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    testing::RandomViewMaker random(seed);
    Shape shape = random.shape(1 + static_cast<int>(random.below(4)));
    const auto axis = static_cast<int>(random.below(shape.rank()));
    std::vector<std::vector<int>> storage;
    std::vector<TensorView> parts;
    Shape whole = shape;
    whole[axis] = 0;
    for (int64_t i = 0; i < 1 + random.below(5); ++i) {  // five are more than one launch takes
      shape[axis] = 1 + random.below(5);
      whole[axis] += shape[axis];
      storage.emplace_back(static_cast<size_t>(random.space_for(shape)));
      std::iota(storage.back().begin(), storage.back().end(), static_cast<int>(1000000 * i + 1));
      parts.push_back(random.view(storage.back().data(), DType::i32, shape));
    }
    std::vector<int> result(static_cast<size_t>(element_count(whole)), 0);
    const TensorView out{result.data(), DType::i32, whole, contiguous_strides(whole)};
    Node node = node_of(Op::concat, {DType::i32, whole});
    node.attributes.detail = Axes{{axis}};
    const auto launches = plan_concat(call_of(node, parts, out));
    EXPECT_EQ(launches.size(), parts.size() > 4 ? parts.size() : 1);
    for (const CudaLaunch& launch : launches)
      launch.kernel.entry == "concat" ? concat_on_host(launch) : copy_on_host(launch);
    int64_t begin = 0;
    for (const TensorView& part : parts) {
      const TensorView there = part_of(out, axis, begin, begin + part.shape[axis]);
      begin += part.shape[axis];
      const TensorView both[] = {part, there};
      const Walk walk = make_walk(part.shape, both);
      for (int64_t i = 0; i < element_count(part.shape); ++i)
        ASSERT_EQ(there.as<int>()[walk.element_offset(1, i)],
                  part.as<int>()[walk.element_offset(0, i)])
            << "seed " << seed;
    }
  }
}

TEST(CudaPlanners, EveryOpHasAPlannerOrRunsNothing) {
  for (int index = 0; index < static_cast<int>(kOpCount); ++index) {
    const Op op = static_cast<Op>(index);
    const bool none = op == Op::input || op == Op::constant || op == Op::matmul ||
                      op == Op::permute || op == Op::expand || op == Op::slice || is_collective(op);
    EXPECT_EQ(cuda_op(op).plan == nullptr, none) << info(op).name;
  }
}

// Slow: compiles some hundred kernels.
TEST(SlowCudaPlanners, KernelsOfRandomProblemsCompile) {
  if (nvrtc_version().empty()) GTEST_SKIP() << "NVRTC was not found: nothing can be compiled";
  std::vector<CudaKernel> kernels;
  for (uint64_t seed = 0; seed < 25; ++seed) {
    testing::RandomViewMaker random(seed);
    const Shape shape = random.shape(1 + static_cast<int>(random.below(4)));
    static constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16, DType::tf32};
    const DType dtype = kFloats[random.below(4)];
    const TensorView inputs[] = {
        random.view(reinterpret_cast<void*>(0x1000), DType::boolean, shape),
        random.view(reinterpret_cast<void*>(0x1000), dtype, shape),
        random.view(reinterpret_cast<void*>(0x1000), dtype, shape)};
    const TensorView out{reinterpret_cast<void*>(0x1000), dtype, shape, contiguous_strides(shape)};
    kernels.push_back(plan_pointwise_op(Op::where, inputs, out).kernel);
    const Node node = node_of(Op::softmax_gradient, {dtype, shape});
    kernels.push_back(plan_softmax_gradient(call_of(node, {inputs + 1, 2}, out))[0].kernel);
  }
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const CudaJit jit({.arch = arch, .cache_dir = "off"});
    const std::vector<MachineCode> codes = jit.machine_codes(kernels);
    for (size_t i = 0; i < codes.size(); ++i)
      EXPECT_EQ(kernel_resources(codes[i].log).spill_bytes, 0) << kernel_key(kernels[i]);
  }
}

}  // namespace
}  // namespace ridgeline::cuda_planners_test
