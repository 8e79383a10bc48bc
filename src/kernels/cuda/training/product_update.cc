#include "kernels/cuda/training/product_update.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "kernels/cuda/matmul/product.h"
#include "kernels/cuda/planning.h"

namespace ridgeline {
namespace {

// Measured rates of one multiprocessor of an H200, per ns: FLOPs of products, and bytes of
// parameters and moments while it multiplies and while it does not.
constexpr double kFlopsOfNs = 5000, kBytesBesideOfNs = 24, kBytesOfNs = 31;
// Bytes per parameter: three numbers read and written, a copy; an update alone reads a gradient.
constexpr double kMoved = 26, kMovedAlone = 28;
constexpr double kLeastGain = 1.05;

int64_t tile_pairs(int64_t rows, int64_t columns) {
  return divide_up(rows, 2 * ProductTile::kRows) * divide_up(columns, ProductTile::kColumns);
}

// A matrix [rows, columns] of a product, whose depth is axis `depth`.
ProductMatrix matrix_of(const TensorView& view, int depth) {
  const bool is_k_major = view.strides[depth] == 1;
  return {.data = view.data,
          .stride = view.strides[is_k_major ? 1 - depth : depth],
          .is_k_major = is_k_major};
}

struct UpdatedProduct {
  size_t tensor;
  DType dtype;
  int64_t depth;
  ProductMatrix left, right;
};

// Calls work(begin, end) for the products of each launch: as few launches as possible, about equal.
template <class Work>
void for_each_launch_of(size_t count, Work work) {
  const size_t launches = (count + kUpdatedProducts - 1) / kUpdatedProducts;
  for (size_t i = 0; i < launches; ++i) work(i * count / launches, (i + 1) * count / launches);
}

}  // namespace

// A cluster processes tile after tile. Nothing is moved while the first one is multiplied; each
// later one takes the longer of multiplying and moving.
bool prefers_update_products(std::span<const ProductSize> products, const CudaFacts& device) {
  if (!has_product_kernels(device)) return false;
  constexpr double kTile = double{ProductTile::kRows} * ProductTile::kColumns;
  double alone_ns = 0, together_ns = 0;
  for_each_launch_of(products.size(), [&](size_t begin, size_t end) {
    double multiply_ns = 0;
    int64_t pairs = 0;
    for (const ProductSize& each : products.subspan(begin, end - begin)) {
      const auto elements = static_cast<double>(each.rows) * static_cast<double>(each.columns);
      const double flops = 2 * static_cast<double>(each.depth);  // of an element
      alone_ns +=
          elements * (flops / kFlopsOfNs + kMovedAlone / kBytesOfNs) / device.multiprocessors;
      multiply_ns = std::max(multiply_ns, kTile * flops / kFlopsOfNs);
      pairs += tile_pairs(each.rows, each.columns);
    }
    const auto rounds = static_cast<double>(divide_up(pairs, device.multiprocessors / 2));
    together_ns += multiply_ns + rounds * std::max(multiply_ns, kTile * kMoved / kBytesBesideOfNs);
  });
  return kLeastGain * together_ns < alone_ns;
}

std::vector<CudaLaunch> plan_product_updates(const CudaCall& call, const AdamWNumbers& numbers) {
  const auto& spec = std::get<AdamWSpec>(call.node.attributes.detail);
  const size_t count = call.outputs.size() / spec.results_of_each();
  std::map<std::pair<bool, bool>, std::vector<UpdatedProduct>> alike;  // by matrix layouts
  for (size_t i = 0; i < count; ++i) {
    if (!spec.is_product(i)) continue;
    const TensorView& left = call.inputs[spec.first_parameter() + count + i];
    const TensorView& right = call.inputs[spec.right_matrix(i, count)];
    const UpdatedProduct product{.tensor = i,
                                 .dtype = left.dtype,
                                 .depth = left.shape[1],
                                 .left = matrix_of(left, 1),
                                 .right = matrix_of(right, 0)};
    alike[{product.left.is_k_major, product.right.is_k_major}].push_back(product);
  }
  std::vector<CudaLaunch> launches;
  for (const auto& group : alike) {
    const std::vector<UpdatedProduct>& products = group.second;
    for_each_launch_of(products.size(), [&](size_t begin, size_t end) {
      const DType dtype = products[begin].dtype;
      CudaLaunch launch = product_launch(
          {.file = "product_update.cu",
           .entry = "product_update",
           .constants = {{"CS336", spec.variant == AdamWVariant::cs336 ? "1" : "0"},
                         {"SCALED", spec.skips    ? "2"
                                    : spec.scaled ? "1"
                                                  : "0"},
                         {"COPIED", spec.copied ? "1" : "0"},
                         {"TOGETHER", "2"},
                         {"AHEAD", "1"}}},
          dtype, products[begin].left.is_k_major, products[begin].right.is_k_major, false);
      ProductUpdateParams params{};
      params.numbers = numbers;
      int64_t pairs = 0;
      for (size_t i = begin; i < end; ++i) {
        const UpdatedProduct& product = products[i];
        const Shape& shape = call.outputs[product.tensor].shape;
        const auto output = [&](size_t kind) {
          return call.outputs[kind * count + product.tensor].data;
        };
        const size_t number = i - begin;
        params.products[number] = put_product(
            launch, offsetof(ProductUpdateParams, products) + number * sizeof(ProductProblem),
            dtype, {shape[0], shape[1], product.depth, shape[1]}, product.left, product.right);
        params.tensors[number] = {.parameter = output(0),
                                  .first_moment = static_cast<float*>(output(1)),
                                  .second_moment = static_cast<float*>(output(2)),
                                  .copy = spec.copied ? output(3) : nullptr};
        pairs += tile_pairs(shape[0], shape[1]);
      }
      params.count = static_cast<int>(end - begin);
      put_grid(launch, pairs, call.device);
      launch.set_params(params);
      launches.push_back(std::move(launch));
    });
  }
  return launches;
}

}  // namespace ridgeline
