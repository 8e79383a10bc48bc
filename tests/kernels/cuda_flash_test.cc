// Flash attention on a GPU against fp64, with both backward algorithms and every candidate tile.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"
#include "kernels/cuda/attention/flash_tiles.h"
#include "kernels/flash_test_support.h"
#include "support/gpu.h"

namespace ridgeline::cuda_flash_test {
namespace {

using namespace flash_testing;
using flash_testing::Layout;  // not those of graphs
using flash_testing::Tensor;
using Alignment = AttentionMask::Alignment;

// A host tensor and its copy on the GPU, with the same strides.
class GpuTensor {
 public:
  GpuTensor(CudaDevice& device, Tensor host) : device_(device), host_(std::move(host)) {
    const auto bytes = static_cast<int64_t>(host_.bytes().size());
    memory_ = device.ledger().allocate(Bytes{bytes}, "test tensor");
    device.upload(raw(), host_.bytes().data());
  }
  TensorView view() {
    TensorView view = host_.view();
    view.data = memory_.data();
    return view;
  }
  const Tensor& fetch() {
    std::memcpy(host_.view().data, download().data(), host_.bytes().size());
    return host_;
  }
  std::vector<uint8_t> download() const {
    std::vector<uint8_t> bytes(host_.bytes().size());
    device_.download(raw(), bytes.data());
    return bytes;
  }

 private:
  TensorView raw() const {
    const auto bytes = static_cast<int64_t>(host_.bytes().size());
    return {memory_.data(), DType::boolean, {bytes}, {1}};
  }
  CudaDevice& device_;
  Tensor host_;
  Allocation memory_;
};

struct GpuRun {
  GpuTensor out, log_sum_exp, d_q, d_k, d_v;
};

Node attention_node(Op op, const Config& config, BackwardAlgorithm algorithm) {
  return {.op = op,
          .inputs = {},
          .attributes = {.detail = AttentionSpec{.scale = scale_of(config),
                                                 .mask = config.mask,
                                                 .backward = algorithm},
                         .target = {}},
          .outputs = {},
          .name = {}};
}

GpuRun run_flash(CudaDevice& device, const Config& config, const Inputs& in,
                 BackwardAlgorithm algorithm) {
  const Shape queries = {config.batch, config.heads, config.queries, config.head_dim};
  const Shape keys = {config.batch, config.key_heads, config.keys, config.head_dim};
  const auto tensor = [&](const Shape& shape, const std::vector<double>* values = nullptr) {
    Tensor host(config.dtype, shape, config.layout);
    if (values != nullptr) host.assign(*values);
    return GpuTensor(device, std::move(host));
  };
  GpuTensor q = tensor(queries, &in.q), k = tensor(keys, &in.k), v = tensor(keys, &in.v),
            d_out = tensor(queries, &in.d_out);
  GpuRun run = {tensor(queries),
                {device, Tensor(DType::f32, {config.batch, config.heads, config.queries},
                                Layout::contiguous)},
                tensor(queries),
                tensor(keys),
                tensor(keys)};
  const std::vector<TensorView> inputs = {q.view(), k.view(), v.view()};
  device.run(attention_node(Op::attention, config, algorithm), inputs,
             std::vector<TensorView>{run.out.view(), run.log_sum_exp.view()});
  const std::vector<TensorView> gradient_inputs = {
      q.view(), k.view(), v.view(), run.out.view(), run.log_sum_exp.view(), d_out.view()};
  device.run(attention_node(Op::attention_gradient, config, algorithm), gradient_inputs,
             std::vector<TensorView>{run.d_q.view(), run.d_k.view(), run.d_v.view()});
  device.synchronize();
  return run;
}

void check(CudaDevice& device, const Config& config, uint32_t seed = 1) {
  const Inputs in = random_inputs(config, seed);
  const Results exact = oracle(config, in);
  const Results rounded = naive(config, in);
  for (auto algorithm : {BackwardAlgorithm::two_pass, BackwardAlgorithm::single_pass}) {
    SCOPED_TRACE(describe(config) +
                 (algorithm == BackwardAlgorithm::two_pass ? " two-pass" : " single-pass"));
    GpuRun run = run_flash(device, config, in, algorithm);
    expect_right(config, in, exact, rounded,
                 {run.out.fetch(), run.log_sum_exp.fetch(), run.d_q.fetch(), run.d_k.fetch(),
                  run.d_v.fetch()});
  }
}

constexpr DType kDTypes[] = {DType::bf16, DType::f16, DType::f32, DType::tf32};

class CudaFlash : public ::testing::Test {
 protected:
  void SetUp() override { RIDGELINE_NEEDS_GPU(); }
  // One for all tests: what is compiled once is there for the next.
  static CudaDevice& device() {
    static CudaDevice gpu({.budget = Bytes{int64_t{8} << 30}});
    return gpu;
  }
};

TEST_F(CudaFlash, MatchesTheOracleForEveryNativeWidth) {
  for (int64_t width : {16, 32, 48, 64, 80, 96, 128, 192, 256})
    for (DType dtype : kDTypes)
      check(device(), {.heads = 2,
                       .key_heads = 2,
                       .queries = 150,
                       .keys = 141,
                       .head_dim = width,
                       .mask = {.causal = width % 3 == 0},
                       .dtype = dtype});
}

TEST_F(CudaFlash, PadsOtherWidths) {
  for (int64_t width : {1, 7, 8, 24, 40, 50, 72, 100, 136, 255})
    check(device(), {.queries = 35,
                     .keys = 41,
                     .head_dim = width,
                     .dtype = kDTypes[static_cast<size_t>(width) % 3]});
  for (int64_t width : {24, 40, 56, 104})
    for (DType dtype : {DType::bf16, DType::f16})
      check(device(), {.queries = 335, .keys = 241, .head_dim = width, .dtype = dtype});
}

TEST_F(CudaFlash, MatchesTheOracleForLengthsThatAreNoMultipleOfTheTile) {
  for (int64_t length : {1, 7, 127, 129, 1000})
    for (bool causal : {false, true})
      for (DType dtype : {DType::bf16, DType::f32})
        check(device(), {.queries = length,
                         .keys = length,
                         .head_dim = 64,
                         .mask = {.causal = causal},
                         .dtype = dtype});
}

TEST_F(CudaFlash, AlignsTheCausalMaskBothWays) {
  for (auto alignment : {Alignment::top_left, Alignment::bottom_right})
    for (auto [queries, keys] : {std::pair{100, 350}, {350, 100}, {1, 130}, {130, 1}, {64, 256}})
      for (DType dtype : kDTypes)
        check(device(), {.queries = queries,
                         .keys = keys,
                         .head_dim = 64,
                         .mask = {.causal = true, .alignment = alignment},
                         .dtype = dtype});
}

TEST_F(CudaFlash, KeepsASlidingWindow) {
  for (int64_t window : {1, 5, 64, 100, 1000})
    for (auto alignment : {Alignment::top_left, Alignment::bottom_right})
      for (DType dtype : {DType::bf16, DType::f32})
        check(device(), {.queries = 370,
                         .keys = 390,
                         .head_dim = 64,
                         .mask = {.causal = window != 5, .alignment = alignment, .window = window},
                         .dtype = dtype});
}

TEST_F(CudaFlash, SharesKeyHeadsAmongQueryHeads) {
  for (int64_t key_heads : {1, 2, 6})
    for (DType dtype : kDTypes)
      check(device(), {.batch = 2,
                       .heads = 6,
                       .key_heads = key_heads,
                       .queries = 70,
                       .keys = 190,
                       .head_dim = 64,
                       .mask = {.causal = true},
                       .dtype = dtype});
}

// More steps than tiles in flight, several times over, in one head and from one to the next.
TEST_F(CudaFlash, MatchesTheOracleOverManySteps) {
  for (int64_t width : {32, 48, 64, 112, 128, 136, 160, 192, 224, 256})
    for (const AttentionMask& mask :
         {AttentionMask{}, {.causal = true}, {.causal = true, .window = 150}})
      check(device(), {.heads = 2,
                       .key_heads = 1,
                       .queries = 530,
                       .keys = 250,
                       .head_dim = width,
                       .mask = mask,
                       .dtype = width % 64 == 0 ? DType::bf16 : DType::f16});
}

TEST_F(CudaFlash, ReadsAndWritesAnyStrides) {
  for (Layout layout : {Layout::heads_inside, Layout::columns_apart})
    for (DType dtype : kDTypes)
      for (int64_t width : {64, 20})
        check(device(), {.batch = 2,
                         .heads = 2,
                         .key_heads = 2,
                         .queries = 67,
                         .keys = 170,
                         .head_dim = width,
                         .dtype = dtype,
                         .layout = layout});
}

// Every query before the first key sees nothing.
TEST_F(CudaFlash, GivesZerosToQueriesThatSeeNothing) {
  for (DType dtype : kDTypes) {
    const Config config{.queries = 200,
                        .keys = 30,
                        .head_dim = 64,
                        .mask = {.causal = true, .alignment = Alignment::bottom_right},
                        .dtype = dtype};
    check(device(), config);
    GpuRun run =
        run_flash(device(), config, random_inputs(config, 3), BackwardAlgorithm::single_pass);
    const std::vector<double> out = run.out.fetch().values(),
                              sums = run.log_sum_exp.fetch().values();
    EXPECT_EQ(largest({out.begin(), out.begin() + 170 * 64}), 0);
    EXPECT_EQ(sums[0], -std::numeric_limits<double>::infinity());
  }
}

TEST_F(CudaFlash, SurvivesLargeScores) {
  for (double magnitude : {30.0, 100.0})
    for (DType dtype : {DType::bf16, DType::f32})
      check(device(),
            {.queries = 150, .keys = 200, .head_dim = 64, .dtype = dtype, .magnitude = magnitude});
}

TEST_F(CudaFlash, TwoPassBackwardGivesTheSameBitsInEveryRun) {
  for (DType dtype : kDTypes) {
    const Config config{.batch = 2,
                        .heads = 4,
                        .key_heads = 2,
                        .queries = 700,
                        .keys = 650,
                        .head_dim = 64,
                        .mask = {.causal = true},
                        .dtype = dtype};
    const Inputs in = random_inputs(config, 9);
    GpuRun first = run_flash(device(), config, in, BackwardAlgorithm::two_pass);
    for (int again = 0; again < 5; ++again) {
      GpuRun next = run_flash(device(), config, in, BackwardAlgorithm::two_pass);
      EXPECT_EQ(first.out.download(), next.out.download());
      EXPECT_EQ(first.d_q.download(), next.d_q.download());
      EXPECT_EQ(first.d_k.download(), next.d_k.download());
      EXPECT_EQ(first.d_v.download(), next.d_v.download());
    }
  }
}

// RIDGELINE_FLASH_CONFIGS of them; 60 unless set.
TEST_F(CudaFlash, MatchesTheOracleForRandomProblems) {
  const char* wanted = std::getenv("RIDGELINE_FLASH_CONFIGS");
  const int count = wanted == nullptr ? 60 : std::atoi(wanted);
  std::mt19937 random(2024);
  const auto pick = [&](auto... options) {
    const int64_t all[] = {int64_t{options}...};
    return all[random() % sizeof...(options)];
  };
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const int64_t key_heads = pick(1, 2);
    check(device(),
          {.batch = pick(1, 2),
           .heads = key_heads * pick(1, 3),
           .key_heads = key_heads,
           .queries = static_cast<int64_t>(1 + random() % 300),
           .keys = static_cast<int64_t>(1 + random() % 300),
           .head_dim = pick(16, 48, 64, 72, 80, 112, 128, 192, 256),
           .mask = {.causal = pick(0, 1) == 1,
                    .alignment = pick(0, 1) == 1 ? Alignment::top_left : Alignment::bottom_right,
                    .window = pick(0, 0, 1, 33)},
           .dtype = kDTypes[random() % 4],
           .layout = static_cast<Layout>(pick(0, 0, 0, 1))},
          static_cast<uint32_t>(i));
  }
}

// So many heads that every multiprocessor has several tiles. They are all the same one, so that one
// oracle serves, and must have the same bits; copies of it, for what lies at a stride of 0 is not
// copied in boxes. One head is missing from whole rounds: blocks persist where few of them wait,
// and some end early. With a mask, blocks draw their tiles where the kernel for warpgroups can.
void check_many_heads(CudaDevice& device, const Config& config) {
  SCOPED_TRACE(describe(config));
  const int64_t heads = 2 * device.facts().multiprocessors - 1, width = config.head_dim;
  const bool is_masked = config.mask.causal || config.mask.window > 0;
  const FlashShape problem{.dtype = config.dtype,
                           .width = static_cast<int>(width),
                           .queries = config.queries,
                           .keys = config.keys,
                           .heads = heads,
                           .key_heads = heads,
                           .mask = is_masked ? 1 : 0};
  const ForwardTile tile = forward_tiles(problem, device.cuda_facts())[0];
  if (tile.kernel != ForwardKernel::portable) {
    EXPECT_EQ(tile.draws(problem), is_masked && (width <= 128 || width > 192));
  }
  const Inputs in = random_inputs(config, 5);
  std::vector<Allocation> memory;
  const auto repeated = [&](int64_t rows, const std::vector<double>& values) {
    Tensor host(config.dtype, {1, 1, rows, width}, Layout::contiguous);
    host.assign(values);
    const int64_t bytes = rows * width * info(config.dtype).size;
    memory.push_back(device.ledger().allocate(Bytes{heads * bytes}, "test tensor"));
    for (int64_t head = 0; head < heads; ++head)
      device.upload({static_cast<char*>(memory.back().data()) + head * bytes,
                     config.dtype,
                     {rows, width},
                     contiguous_strides({rows, width})},
                    host.bytes().data());
    const Shape shape = {1, heads, rows, width};
    return TensorView{memory.back().data(), config.dtype, shape, contiguous_strides(shape)};
  };
  GpuTensor out(device,
                Tensor(config.dtype, {1, heads, config.queries, width}, Layout::contiguous));
  GpuTensor sums(device, Tensor(DType::f32, {1, heads, config.queries}, Layout::contiguous));
  device.run(attention_node(Op::attention, config, {}),
             std::vector<TensorView>{repeated(config.queries, in.q), repeated(config.keys, in.k),
                                     repeated(config.keys, in.v)},
             std::vector<TensorView>{out.view(), sums.view()});
  device.synchronize();

  const std::vector<double> all = out.fetch().values(), all_sums = sums.fetch().values();
  const Results exact = oracle(config, in), rounded = naive(config, in);
  const std::vector<double> first(all.begin(), all.begin() + config.queries * width);
  const double half_unit = 0.5 * info(config.dtype).epsilon * largest(exact.out);
  EXPECT_LE(distance(first, exact.out), 2 * distance(rounded.out, exact.out) + half_unit);
  const std::vector<double> first_sums(all_sums.begin(), all_sums.begin() + config.queries);
  EXPECT_LE(distance(first_sums, exact.log_sum_exp), 1e-4);
  for (int64_t head = 1; head < heads; ++head)
    ASSERT_TRUE(
        std::equal(first.begin(), first.end(), all.begin() + head * config.queries * width) &&
        std::equal(first_sums.begin(), first_sums.end(), all_sums.begin() + head * config.queries))
        << "head " << head;
}

// Queries of the bottom-right mask that see nothing get zeros from nobody's additions.
TEST_F(CudaFlash, GivesQueriesThatSeeNothingGradientsOfZero) {
  for (int64_t width : {64, 96, 128})
    for (const AttentionMask& mask :
         {AttentionMask{.causal = true},
          {.causal = true, .alignment = Alignment::bottom_right},
          {.causal = true, .alignment = Alignment::bottom_right, .window = 200},
          {.window = 90}})
      for (auto [queries, keys] : {std::pair{1030, 1024}, {1400, 1100}, {70, 1500}})
        check(device(), {.heads = 2,
                         .key_heads = 1,
                         .queries = queries,
                         .keys = keys,
                         .head_dim = width,
                         .mask = mask,
                         .dtype = DType::bf16});
}

// As many heads as there are multiprocessors, or twice as many: blocks process whole heads, the
// later ones with the sums of dQ of earlier ones. The oracle would take minutes; two passes share
// no sums.
TEST_F(CudaFlash, BlocksOfWholeHeadsDoNotMixThem) {
  const int64_t blocks = device().facts().multiprocessors;
  for (int64_t width : {64, 128})
    for (int64_t key_heads : {blocks, 2 * blocks})
      for (const AttentionMask& mask :
           {AttentionMask{}, {.causal = true}, {.causal = true, .window = 70}}) {
        const Config config{.heads = 2 * blocks,
                            .key_heads = key_heads,
                            .queries = 250,
                            .keys = 250,
                            .head_dim = width,
                            .mask = mask,
                            .dtype = DType::f16};
        SCOPED_TRACE(describe(config));
        const Inputs in = random_inputs(config, 11);
        const auto gradients = [&](BackwardAlgorithm algorithm) {
          auto results = run_flash(device(), config, in, algorithm);
          return std::array{results.d_q.fetch().values(), results.d_k.fetch().values(),
                            results.d_v.fetch().values()};
        };
        const auto expected = gradients(BackwardAlgorithm::two_pass);
        const auto found = gradients(BackwardAlgorithm::single_pass);
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_LE(distance(found[i], expected[i]),
                    4 * info(config.dtype).epsilon * largest(expected[i]))
              << "result " << i;
      }
}

class CudaFlashWidth : public CudaFlash, public ::testing::WithParamInterface<int64_t> {};

TEST_P(CudaFlashWidth, MatchesTheOracleWithMoreTilesThanMultiprocessors) {
  const int64_t width = GetParam();
  for (const AttentionMask& mask :
       {AttentionMask{}, {.causal = true}, {.causal = true, .window = 70}})
    check_many_heads(device(), {.queries = 380,
                                .keys = width > 64    ? 390
                                        : mask.causal ? 2050
                                                      : 1030,
                                .head_dim = width,
                                .mask = mask,
                                .dtype = DType::bf16});
  // One step, and too many for the kernels of short sequences.
  for (int64_t keys : {110, 600})
    check_many_heads(device(),
                     {.queries = 200, .keys = keys, .head_dim = width, .dtype = DType::f16});
}

INSTANTIATE_TEST_SUITE_P(Widths, CudaFlashWidth,
                         ::testing::Values(48, 64, 72, 80, 96, 128, 160, 192, 256));

// Each candidate that the tuner may pick, not only the first; no kernel has more than five.
class CudaFlashVariant : public ::testing::TestWithParam<size_t> {};

TEST_P(CudaFlashVariant, MatchesTheOracle) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice gpu({.budget = Bytes{int64_t{1} << 30}, .variant = GetParam()});
  for (int64_t width : {48, 64, 128, 256})
    for (DType dtype : kDTypes)
      check(gpu, {.heads = 2,
                  .key_heads = 1,
                  .queries = 260,
                  .keys = 300,
                  .head_dim = width,
                  .mask = {.causal = true},
                  .dtype = dtype});
}

INSTANTIATE_TEST_SUITE_P(Variants, CudaFlashVariant, ::testing::Range(size_t{0}, size_t{5}));

TEST_F(CudaFlash, CountsBeyondTwoToTheThirtyOne) {
  // 2^31 + elements in each tensor; the last head is compared with a problem of its own.
  const int64_t heads = 257, length = 65536, width = 128;
  CudaDevice gpu;
  if (gpu.ledger().budget() < Bytes{int64_t{40} << 30})
    GTEST_SKIP() << "needs 40 GiB of GPU memory";
  const Shape shape = {1, heads, length, width};
  std::vector<Allocation> memory;
  const auto make = [&](const Shape& s, DType dtype) {
    memory.push_back(gpu.ledger().allocate(byte_size({dtype, s}), "large tensor"));
    return TensorView{memory.back().data(), dtype, s, contiguous_strides(s)};
  };
  // A window keeps the work small; rows are copies of one random head, so that memory is filled
  // quickly.
  const Config small{.queries = length, .keys = length, .head_dim = width, .dtype = DType::bf16};
  std::mt19937 random(1);
  std::vector<uint16_t> head(static_cast<size_t>(length * width));
  for (uint16_t& x : head) x = float_to_bf16(static_cast<float>(random() % 2001) / 1000.0f - 1.0f);
  const TensorView q = make(shape, DType::bf16), out = make(shape, DType::bf16);
  const TensorView sums = make({1, heads, length}, DType::f32);
  for (int64_t h = 0; h < heads; ++h) {
    TensorView part{static_cast<uint16_t*>(q.data) + h * length * width,
                    DType::bf16,
                    {length, width},
                    {width, 1}};
    gpu.upload(part, head.data());
  }
  Config windowed = small;
  windowed.mask = {.causal = true, .window = 128};
  gpu.run(attention_node(Op::attention, windowed, {}), std::vector<TensorView>{q, q, q},
          std::vector<TensorView>{out, sums});
  gpu.synchronize();
  std::vector<uint16_t> first(head.size()), last(head.size());
  const auto fetch = [&](int64_t h, std::vector<uint16_t>& to) {
    gpu.download({static_cast<uint16_t*>(out.data) + h * length * width,
                  DType::bf16,
                  {length, width},
                  {width, 1}},
                 to.data());
  };
  fetch(0, first);
  fetch(heads - 1, last);
  EXPECT_EQ(first, last);
  EXPECT_NE(first, std::vector<uint16_t>(head.size(), first[0]));
}

}  // namespace
}  // namespace ridgeline::cuda_flash_test
