// Shapes and strides: static, at most kMaxRank axes, counted in elements.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace ridgeline {

inline constexpr int kMaxRank = 6;

// A short list of per-axis integers: the sizes of a shape, strides, or a permutation.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values);
  explicit Dims(std::span<const int64_t> values);
  static Dims filled(int rank, int64_t value);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return values_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return values_[static_cast<size_t>(axis)]; }
  // Axis counted from the end: back(0) is the last one.
  int64_t back(int from_end = 0) const { return (*this)[rank_ - 1 - from_end]; }
  int64_t& back(int from_end = 0) { return (*this)[rank_ - 1 - from_end]; }
  void push_back(int64_t value);

  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + rank_; }
  std::span<const int64_t> span() const { return {begin(), end()}; }
  bool operator==(const Dims& other) const;

 private:
  int rank_ = 0;
  std::array<int64_t, kMaxRank> values_{};
};

using Shape = Dims;
using Strides = Dims;

// Product of the sizes. Throws a usage error when it exceeds 2^52.
int64_t element_count(const Shape& shape);

Strides contiguous_strides(const Shape& shape);

// The shape both broadcast to, as numpy and PyTorch do it; throws a usage error otherwise.
Shape broadcast_shapes(const Shape& a, const Shape& b);

std::string to_string(const Dims& dims);  // "[8, 1024, 64]"

}  // namespace ridgeline
