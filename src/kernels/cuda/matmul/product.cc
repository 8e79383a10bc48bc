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

// A tile, as product_warpgroups.cuh has it.
constexpr int64_t kTileRows = 128, kTileColumns = 192, kTileDepth = 64, kRingStages = 4;
constexpr int64_t kBlockThreads = 512, kClusterBlocks = 2;  // of a cluster
constexpr int64_t kElementBytes = 2;                        // bytes
constexpr int64_t kStageBytes = (kTileRows + kTileColumns) * kTileDepth * kElementBytes;
constexpr int64_t kSumsBytes = kTileRows * (kTileColumns * kElementBytes + 16);
constexpr int64_t kBarrierBytes = 2 * 8;
constexpr int64_t kSharedBytes =
    kRingStages * (kStageBytes + kBarrierBytes) + kSumsBytes + kBarrierBytes;

static_assert(kMostProductOperands == kProductOperands);

// Operands of so many packs fit a thread's registers twice.
int64_t together(const FusedKernel& kernel) {
  constexpr int64_t kHeld = 8;  // packs
  int64_t loads = 0;
  for (const FusedOperand& input : kernel.inputs) loads += kernel.is_computed(input) ? 0 : 1;
  return std::clamp<int64_t>(kHeld / 2 / std::max<int64_t>(loads, 1), 1, 3);
}

BoxedTensor boxed(const FusedMatrix& matrix, DType dtype, int64_t rows, int64_t width,
                  int64_t box_rows, size_t map, size_t address) {
  const auto stride = static_cast<uint64_t>(matrix.stride * kElementBytes);
  const uint64_t whole = stride * static_cast<uint64_t>(rows);
  return {.map_offset = static_cast<uint32_t>(map),
          .address_offset = static_cast<uint32_t>(address),
          .dtype = dtype,
          .sizes = {static_cast<uint64_t>(width), static_cast<uint64_t>(rows), 1, 1},
          .strides_bytes = {stride, whole, whole},
          .box_rows = static_cast<uint32_t>(box_rows)};
}

}  // namespace

bool has_product_kernels(const CudaFacts& device) {
  return device.compute_capability == 90 && device.shared_bytes_per_block >= kSharedBytes;
}

CudaProductKernel::CudaProductKernel(const FusedKernel& kernel, const EmitOptions& options,
                                     const CudaFacts& device) {
  const FusedProduct& product = *kernel.product;
  const FusedWalk walk = make_walk(kernel);
  const int64_t pair = paired_column(kernel);
  const int64_t tile_columns = pair > 0 ? kTileColumns / 2 : kTileColumns;
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  if (!has_product_kernels(device) || product.rows > kMost / 2 || product.columns > kMost / 2 ||
      product.depth > kMost / 2)
    throw Error(ErrorKind::unsupported, "products inside of kernels need a GPU like the H100",
                "products by the library serve everywhere");
  CudaText text = emit_product(kernel, options);
  launch_.kernel = {.file = text.entry + ".cu",
                    .entry = text.entry,
                    .constants = {{"ELEMENT", element_name(product.dtype)}},
                    .text = std::move(text.text)};
  for (const auto& [name, value] : {std::pair{"COLUMNS", kTileColumns},
                                    {"STAGES", kRingStages},
                                    {"TOGETHER", together(kernel)},
                                    {"LEFT_DEEP", int64_t{product.left.is_deep}},
                                    {"RIGHT_DEEP", int64_t{product.right.is_deep}},
                                    {"PAIRED", int64_t{pair > 0}}})
    launch_.kernel.constants.emplace_back(name, std::to_string(value));
  ProductParams params{};
  params.rows = static_cast<int>(product.rows);
  params.columns = static_cast<int>(walk.columns);
  params.depth = static_cast<int>(product.depth);
  params.row_pairs = static_cast<int>(divide_up(product.rows, kClusterBlocks * kTileRows));
  params.column_tiles = static_cast<int>(divide_up(walk.columns, tile_columns));
  params.pair = static_cast<int>(pair);
  size_t operand = 0;
  const auto add = [&](const FusedOperand& of, const FusedWalk::Steps& steps) {
    params.operands[operand++].row = steps.rows[0];
    offsets_.push_back(of.offset * info(of.dtype).size);
  };
  for (size_t i = 0; i < kernel.inputs.size(); ++i) add(kernel.inputs[i], walk.inputs[i]);
  for (const FusedMatrix* matrix : {&product.left, &product.right})
    offsets_.push_back(matrix->offset * kElementBytes);
  for (size_t i = 0; i < kernel.results.size(); ++i) add(kernel.results[i].to, walk.results[i]);
  launch_.set_params(params);

  clusters_ = params.row_pairs * int64_t{params.column_tiles};
  launch_.threads = static_cast<uint32_t>(kBlockThreads);
  launch_.shared_bytes = static_cast<uint32_t>(kSharedBytes);
  launch_.boxed = {product.left.is_deep
                       ? boxed(product.left, product.dtype, product.rows, product.depth, kTileRows,
                               offsetof(ProductParams, left), offsetof(ProductParams, left_data))
                       : boxed(product.left, product.dtype, product.depth, product.rows, kTileDepth,
                               offsetof(ProductParams, left), offsetof(ProductParams, left_data)),
                   product.right.is_deep
                       ? boxed(product.right, product.dtype, product.columns, product.depth,
                               kTileColumns / kClusterBlocks, offsetof(ProductParams, right),
                               offsetof(ProductParams, right_data))
                       : boxed(product.right, product.dtype, product.depth, product.columns,
                               kTileDepth / kClusterBlocks, offsetof(ProductParams, right),
                               offsetof(ProductParams, right_data))};
}

CudaLaunch CudaProductKernel::launch(std::span<void* const> inputs, std::span<void* const> outputs,
                                     const CudaFacts& device) const {
  CudaLaunch launch = launch_;
  const int64_t clusters = std::min<int64_t>(clusters_, device.multiprocessors / kClusterBlocks);
  launch.grid = {static_cast<uint32_t>(kClusterBlocks * clusters), 1, 1};
  ProductParams params;
  std::memcpy(&params, launch.params.data(), sizeof params);
  const auto moved = [&](void* base, size_t number) {
    return base == nullptr ? nullptr : static_cast<char*>(base) + offsets_[number];
  };
  const size_t operands = inputs.size() - 2;
  for (size_t i = 0; i < operands; ++i) params.operands[i].data = moved(inputs[i], i);
  params.left_data = moved(inputs[operands], operands);
  params.right_data = moved(inputs[operands + 1], operands + 1);
  for (size_t i = 0; i < outputs.size(); ++i)
    params.operands[operands + i].data = moved(outputs[i], inputs.size() + i);
  launch.set_params(params);
  return launch;
}

}  // namespace ridgeline
