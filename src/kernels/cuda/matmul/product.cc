#include "kernels/cuda/matmul/product.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/error.h"
#include "codegen/emit.h"
#include "kernels/cuda/planning.h"
#include "plan/product_kernel.h"

namespace ridgeline {
namespace {

// As in product_warpgroups.cuh.
constexpr int64_t kRingStages = 4;
constexpr int64_t kBlockThreads = 512, kClusterBlocks = 2;
constexpr int64_t kElementBytes = 2;
constexpr int64_t kStageBytes =
    (ProductTile::kRows + ProductTile::kColumns) * ProductTile::kDepth * kElementBytes;
constexpr int64_t kSumsBytes = ProductTile::kRows * (ProductTile::kColumns * kElementBytes + 16);
constexpr int64_t kBarrierBytes = 2 * 8;
constexpr int64_t kSharedBytes =
    kRingStages * (kStageBytes + kBarrierBytes) + kSumsBytes + kBarrierBytes;

static_assert(kMostProductOperands == kProductOperands);

// Returns how many packs of operands fit a thread's registers twice.
int64_t together(const FusedKernel& kernel) {
  constexpr int64_t kHeld = 8;  // packs
  int64_t loads = 0;
  for (const FusedOperand& input : kernel.inputs) loads += kernel.is_computed(input) ? 0 : 1;
  return std::clamp<int64_t>(kHeld / 2 / std::max<int64_t>(loads, 1), 1, 3);
}

// Describes a matrix for TMA: `across` rows or columns, `box` of them at a time.
BoxedTensor boxed(const ProductMatrix& matrix, DType dtype, int64_t across, int64_t depth,
                  int64_t box, int64_t depth_box, size_t map, size_t address) {
  const auto stride = static_cast<uint64_t>(matrix.stride * kElementBytes);
  const auto width = static_cast<uint64_t>(matrix.is_k_major ? depth : across),
             rows = static_cast<uint64_t>(matrix.is_k_major ? across : depth);
  return {.map_offset = static_cast<uint32_t>(map),
          .address_offset = static_cast<uint32_t>(address),
          .dtype = dtype,
          .sizes = {width, rows, 1, 1},
          .strides_bytes = {stride, stride * rows, stride * rows},
          .box_rows = static_cast<uint32_t>(matrix.is_k_major ? box : depth_box)};
}

}  // namespace

bool has_product_kernels(const CudaFacts& device) {
  return device.compute_capability == 90 && device.shared_bytes_per_block >= kSharedBytes;
}

CudaLaunch product_launch(CudaKernel kernel, DType dtype, bool left_k_major, bool right_k_major,
                          bool paired) {
  kernel.constants.emplace_back("ELEMENT", element_name(dtype));
  for (const auto& [name, value] : {std::pair{"COLUMNS", ProductTile::kColumns},
                                    {"STAGES", kRingStages},
                                    {"LEFT_K_MAJOR", int64_t{left_k_major}},
                                    {"RIGHT_K_MAJOR", int64_t{right_k_major}},
                                    {"PAIRED", int64_t{paired}}})
    kernel.constants.emplace_back(name, std::to_string(value));
  return {.kernel = std::move(kernel),
          .threads = static_cast<uint32_t>(kBlockThreads),
          .shared_bytes = static_cast<uint32_t>(kSharedBytes)};
}

ProductProblem put_product(CudaLaunch& launch, size_t place, DType dtype, const ProductSpan& span,
                           const ProductMatrix& left, const ProductMatrix& right) {
  const bool is_paired = span.epilogue_columns != span.columns;
  const int64_t tile_columns = is_paired ? ProductTile::kColumns / 2 : ProductTile::kColumns;
  launch.boxed.push_back(boxed(left, dtype, span.rows, span.depth, ProductTile::kRows,
                               ProductTile::kDepth, place + offsetof(ProductProblem, left),
                               place + offsetof(ProductProblem, left_data)));
  launch.boxed.push_back(
      boxed(right, dtype, span.columns, span.depth, ProductTile::kColumns / kClusterBlocks,
            ProductTile::kDepth / kClusterBlocks, place + offsetof(ProductProblem, right),
            place + offsetof(ProductProblem, right_data)));
  return {.left = {},
          .right = {},
          .left_data = left.data,
          .right_data = right.data,
          .rows = static_cast<int>(span.rows),
          .columns = static_cast<int>(span.epilogue_columns),
          .depth = static_cast<int>(span.depth),
          .row_pairs = static_cast<int>(divide_up(span.rows, kClusterBlocks * ProductTile::kRows)),
          .column_tiles = static_cast<int>(divide_up(span.epilogue_columns, tile_columns))};
}

void put_grid(CudaLaunch& launch, int64_t tile_pairs, const CudaFacts& device) {
  const int64_t clusters = std::min<int64_t>(tile_pairs, device.multiprocessors / kClusterBlocks);
  launch.grid = {static_cast<uint32_t>(kClusterBlocks * clusters), 1, 1};
}

CudaProductKernel::CudaProductKernel(const FusedKernel& kernel, const CudaFacts& device) {
  const FusedProduct& product = *kernel.product;
  const FusedWalk walk = make_walk(kernel);
  const int64_t pair = paired_column(kernel);
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  if (!has_product_kernels(device) || product.rows > kMost / 2 || product.columns > kMost / 2 ||
      product.depth > kMost / 2)
    throw Error(ErrorKind::unsupported, "fused product kernels need a Hopper GPU",
                "use library products");
  CudaText text = emit_product(kernel);
  launch_ = product_launch({.file = text.entry + ".cu",
                            .entry = text.entry,
                            .constants = {{"TOGETHER", std::to_string(together(kernel))}},
                            .text = std::move(text.text)},
                           product.dtype, product.left.is_deep, product.right.is_deep, pair > 0);
  const auto matrix = [](const FusedMatrix& of) {
    return ProductMatrix{.data = nullptr, .stride = of.stride, .is_k_major = of.is_deep};
  };
  ProductParams params{};
  params.products[0] = put_product(launch_, offsetof(ProductParams, products), product.dtype,
                                   {.rows = product.rows,
                                    .columns = product.columns,
                                    .depth = product.depth,
                                    .epilogue_columns = walk.columns},
                                   matrix(product.left), matrix(product.right));
  params.count = 1;
  params.pair = static_cast<int>(pair);
  size_t operand = 0;
  const auto add = [&](const FusedOperand& of, const FusedWalk::Steps& steps) {
    params.operands[operand++].row = steps.rows[0];
    offsets_.push_back(of.offset * info(of.dtype).size);
  };
  for (size_t i = 0; i < kernel.inputs.size(); ++i) add(kernel.inputs[i], walk.inputs[i]);
  for (const FusedMatrix* of : {&product.left, &product.right})
    offsets_.push_back(of->offset * kElementBytes);
  for (size_t i = 0; i < kernel.results.size(); ++i) add(kernel.results[i].to, walk.results[i]);
  launch_.set_params(params);
  tile_pairs_ = params.products[0].row_pairs * int64_t{params.products[0].column_tiles};
}

CudaLaunch CudaProductKernel::launch(std::span<void* const> inputs, std::span<void* const> outputs,
                                     const CudaFacts& device) const {
  CudaLaunch launch = launch_;
  put_grid(launch, tile_pairs_, device);
  ProductParams params;
  std::memcpy(&params, launch.params.data(), sizeof params);
  const auto moved = [&](void* base, size_t number) {
    return base == nullptr ? nullptr : static_cast<char*>(base) + offsets_[number];
  };
  const size_t operands = inputs.size() - 2;
  for (size_t i = 0; i < operands; ++i) params.operands[i].data = moved(inputs[i], i);
  params.products[0].left_data = moved(inputs[operands], operands);
  params.products[0].right_data = moved(inputs[operands + 1], operands + 1);
  for (size_t i = 0; i < outputs.size(); ++i)
    params.operands[operands + i].data = moved(outputs[i], inputs.size() + i);
  launch.set_params(params);
  return launch;
}

}  // namespace ridgeline
