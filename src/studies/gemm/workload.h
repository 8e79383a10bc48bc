// The workloads of the gemm study: shapes, implementations and every combination of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/dtype.h"
#include "measure/record.h"
#include "runtime/device.h"
#include "studies/choices.h"

namespace ridgeline {

// [m, k] x [k, n]; n = 1 is a matrix times a vector.
struct GemmShape {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;

  bool is_vector() const { return n == 1; }
  bool operator==(const GemmShape&) const = default;
};
GemmShape parse_gemm_shape(std::string_view text);  // "4096,4096,1024"; throws a usage error

struct GemmImplementation {
  GemmRung rung;
  std::string_view name;
  std::string_view summary;
  double slowdown;  // against the library, roughly; only for estimated times
};
extern const Choices<GemmImplementation> kGemmImplementations;
std::vector<std::string> gemm_implementations_of(const Device& device);

struct GemmWorkload {
  GemmShape shape;
  DType dtype = DType::f32;
  std::string implementation = "library";
};

// The study's axes; every combination is a row.
struct GemmMatrix {
  std::vector<std::string> ops = {"gemm", "gemv"};
  std::vector<int64_t> sizes = {};  // square: [size, size] x [size, size], or x [size]
  std::vector<GemmShape> shapes = {};
  std::vector<std::string> dtypes = {"fp32"};
  std::vector<std::string> implementations = {"library"};
};
// Sizes up to which the slowest rung takes a second or so.
std::vector<int64_t> default_gemm_sizes(bool on_gpu);

// The implementation varies fastest. Throws a usage error for an unknown name.
std::vector<GemmWorkload> expand_matrix(const GemmMatrix& matrix);

// m n k MACs, twice as many FLOPs, and every operand moved once. Throws a usage error for a problem
// too large to count.
PhaseCost gemm_cost(const GemmShape& shape, DType dtype);
inline constexpr const char* kGemmConvention =
    "m n k MACs, two FLOPs each; bytes: both operands read and the result written once";

// "tiled gemm 512x512x512 fp32".
std::string label(const GemmWorkload& workload);

}  // namespace ridgeline
