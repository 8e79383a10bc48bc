#include "graph/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/closest.h"
#include "base/error.h"
#include "graph/dtype.h"

namespace ridgeline {

Dims::Dims(std::initializer_list<int64_t> values) {
  for (int64_t value : values) push_back(value);
}

Dims::Dims(std::span<const int64_t> values) {
  for (int64_t value : values) push_back(value);
}

Dims Dims::filled(int rank, int64_t value) {
  Dims dims;
  for (int axis = 0; axis < rank; ++axis) dims.push_back(value);
  return dims;
}

void Dims::push_back(int64_t value) {
  if (rank_ == kMaxRank)
    throw Error(ErrorKind::usage, fmt::format("a tensor has at most {} axes", kMaxRank));
  values_[static_cast<size_t>(rank_++)] = value;
}

bool Dims::operator==(const Dims& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

int64_t element_count(const Shape& shape) {
  constexpr int64_t kLimit = int64_t{1} << 52;  // sums over many tensors still fit 64 bits
  int64_t count = 1;
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(count, size, &count) || count > kLimit)
      throw Error(ErrorKind::usage,
                  fmt::format("a tensor of shape {} has more than 2^52 elements", to_string(shape)),
                  "choose smaller sizes");
  }
  return count;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Dims::filled(shape.rank(), 1);
  for (int axis = shape.rank() - 2; axis >= 0; --axis)
    strides[axis] = strides[axis + 1] * std::max<int64_t>(shape[axis + 1], 1);
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape result = Dims::filled(rank, 1);
  for (int from_end = 0; from_end < rank; ++from_end) {
    const int64_t size_a = from_end < a.rank() ? a.back(from_end) : 1;
    const int64_t size_b = from_end < b.rank() ? b.back(from_end) : 1;
    if (size_a != size_b && size_a != 1 && size_b != 1)
      throw Error(ErrorKind::usage,
                  fmt::format("shapes {} and {} do not broadcast", to_string(a), to_string(b)));
    result.back(from_end) = size_a == 1 ? size_b : size_a;
  }
  return result;
}

std::string to_string(const Dims& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

DType parse_float_dtype(std::string_view name) {
  KnownNames known{.what = "a dtype", .names = {}};
  for (DType dtype : {DType::f32, DType::tf32, DType::bf16, DType::f16}) {
    if (info(dtype).name == name) return dtype;
    known.names.emplace_back(info(dtype).name);
  }
  throw unknown_name(name, known);
}

}  // namespace ridgeline
