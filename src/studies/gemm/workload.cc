#include "studies/gemm/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/closest.h"
#include "base/error.h"
#include "studies/flags.h"

namespace ridgeline {
namespace {

constexpr GemmImplementation kImplementations[] = {
    {GemmRung::naive, "naive", "three loops: a dot product for every element", 100},
    {GemmRung::tiled, "tiled",
     "blocks that stay in the cache, or in shared memory and registers on a GPU", 20},
    {GemmRung::simd, "simd", "packed panels and a tile of sums in vector registers; on a CPU", 2},
    {GemmRung::library, "library", "OpenBLAS on a CPU, cuBLASLt on a GPU", 1},
};

}  // namespace

const Choices<GemmImplementation> kGemmImplementations{"a GEMM implementation", kImplementations};

std::vector<std::string> gemm_implementations_of(const Device& device) {
  std::vector<std::string> names;
  for (const GemmImplementation& implementation : kGemmImplementations)
    if (device.has_gemm(implementation.rung)) names.emplace_back(implementation.name);
  return names;
}

std::vector<int64_t> default_gemm_sizes(bool on_gpu) {
  if (on_gpu) return {256, 512, 1024, 2048, 4096, 8192};
  return {64, 128, 256, 512, 1024};
}

GemmShape parse_gemm_shape(std::string_view text) {
  const std::vector<int64_t> sizes = parse_sizes(text, 3);
  if (sizes.empty())
    throw Error(ErrorKind::usage, fmt::format("'{}' is not a shape of a product", text),
                "give M,N,K, each at least 1, such as 4096,4096,1024");
  return {sizes[0], sizes[1], sizes[2]};
}

std::vector<GemmWorkload> expand_matrix(const GemmMatrix& matrix) {
  for (const std::string& implementation : matrix.implementations)
    kGemmImplementations.find(implementation);
  // A size may make a problem that was named as a shape, too; a gemm of size 1 is a gemv.
  std::vector<GemmShape> shapes;
  const auto add = [&](const GemmShape& shape) {
    if (std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(shape);
  };
  for (const std::string& op : matrix.ops) {
    if (op != "gemm" && op != "gemv")
      throw unknown_name(op, {.what = "an op of the GEMM lab", .names = {"gemm", "gemv"}});
    for (int64_t size : matrix.sizes) add({size, op == "gemv" ? 1 : size, size});
  }
  for (const GemmShape& shape : matrix.shapes) add(shape);
  std::vector<GemmWorkload> workloads;
  for (const std::string& dtype : matrix.dtypes)
    for (const GemmShape& shape : shapes)
      for (const std::string& implementation : matrix.implementations)
        workloads.push_back({shape, parse_float_dtype(dtype), implementation});
  return workloads;
}

PhaseCost gemm_cost(const GemmShape& shape, DType dtype) {
  const auto product = [&](int64_t a, int64_t b) {
    int64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result) || result > (int64_t{1} << 59))
      throw Error(
          ErrorKind::usage,
          fmt::format("a product of {} x {} x {} is too large to count", shape.m, shape.n, shape.k),
          "choose smaller sizes");
    return result;
  };
  const int64_t macs = product(product(shape.m, shape.n), shape.k);
  const int64_t elements =
      product(shape.m, shape.k) + product(shape.k, shape.n) + product(shape.m, shape.n);
  return {2 * macs, macs, Bytes{product(elements, info(dtype).size)}};
}

std::string label(const GemmWorkload& workload) {
  const GemmShape& shape = workload.shape;
  return fmt::format("{} {} {}x{}x{} {}", workload.implementation,
                     shape.is_vector() ? "gemv" : "gemm", shape.m, shape.n, shape.k,
                     info(workload.dtype).name);
}

}  // namespace ridgeline
