// Random small graphs for differential tests: every op, odd shapes, broadcasts and views, tame
// values.
#pragma once

#include <random>

#include "graph/tensor.h"
#include "kernels/reference/interpreter.h"

namespace ridgeline::testing {

struct RandomGraph {
  Graph graph;
  InterpreterInputs inputs;
};

class RandomGraphMaker {
 public:
  explicit RandomGraphMaker(uint64_t seed, DType dtype = DType::f32)
      : random_(seed), dtype_(dtype) {}

  RandomGraph make(int ops) {
    RandomGraph result;
    graph_ = &result.graph;
    pool_.clear();
    for (int i = 0; i < 3; ++i) add_input(result);
    for (int i = 0; i < ops; ++i) pool_.push_back(step());
    // The last values are results; everything else is used by them, or dies unread.
    for (int i = 0; i < 3; ++i)
      result.graph.mark_output("out" + std::to_string(i), pick_from_end(i).value());
    return result;
  }

 private:
  int64_t below(int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random_);
  }
  Tensor pick() { return pool_[static_cast<size_t>(below(static_cast<int64_t>(pool_.size())))]; }
  Tensor pick_from_end(int i) { return pool_[pool_.size() - 1 - static_cast<size_t>(i)]; }

  void add_input(RandomGraph& result) {
    Shape shape;
    const int64_t rank = 1 + below(4);
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 17, 33};
    for (int64_t axis = 0; axis < rank; ++axis)
      shape.push_back(kSizes[below(axis + 1 < rank ? 6 : 9)]);
    const std::string name = "in" + std::to_string(pool_.size());
    pool_.push_back(input(result.graph, name, {dtype_, shape}));
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (double& value : values)
      value = round_to(dtype_, std::normal_distribution<double>()(random_));
    result.inputs[name] = std::move(values);
  }

  // Squashed into [-1, 1], so that chains of ops neither overflow nor lose all precision.
  Tensor tame(const Tensor& x) { return tanh(x); }

  Tensor partner(const Tensor& x) {
    const Tensor other = pick();
    for (int axis = 0; axis < std::min(x.shape().rank(), other.shape().rank()); ++axis) {
      const int64_t a = x.shape().back(axis), b = other.shape().back(axis);
      if (a != b && a != 1 && b != 1) return sum_like(x);
    }
    return element_count(broadcast_shapes(x.shape(), other.shape())) > 20000 ? sum_like(x) : other;
  }
  Tensor sum_like(const Tensor& x) { return mean(x, {below(x.shape().rank())}); }

  Tensor step() {
    const Tensor x = pick();
    const int rank = x.shape().rank();
    const auto axis = static_cast<int>(below(rank));
    const int64_t size = x.shape()[axis];
    switch (below(27)) {
      case 0:
        return -x;
      case 1:
        return exp(tame(x));
      case 2:
        return log(exp(tame(x)) + 0.5);
      case 3:
        return sqrt(exp(tame(x)));
      case 4:
        return rsqrt(exp(tame(x)));
      case 5:
        return sin(x);
      case 6:
        return cos(x);
      case 7:
        return sigmoid(x);
      case 8:
        return tanh(x);
      case 9:
        return x + partner(x);
      case 10:
        return x - partner(x);
      case 11:
        return tame(x) * partner(x);
      case 12:
        return x / (exp(tame(partner(x))) + 0.25);
      case 13:
        return maximum(x, partner(x));
      case 14:
        return where(less(x, scalar(x, 0.1)), x, sin(x));
      case 15:
        return where(
            less_equal(iota(*graph_, x.shape().back()), scalar_i32(below(x.shape().back()))), x,
            scalar(x, -2));
      case 16:
        return softmax(x);
      case 17:
        return softmax_gradient(softmax(x), tame(x));
      case 18:
        return mean(x, {axis});
      case 19:
        return max(x, {axis});
      case 20:
        return sum(x, Dims{axis}) * (1.0 / static_cast<double>(size));
      case 21:
        return rank >= 2 ? matmul(tame(x), transpose(tame(x))) *
                               (1.0 / static_cast<double>(x.shape().back()))
                         : x * 0.5;
      case 22:
        return reshape(rank >= 2 ? transpose(x) : x, {element_count(x.shape())});
      case 23:
        return rank >= 2 ? transpose(x) : expand(x, {3, size});
      case 24:
        return size > 1 ? slice(x, axis, 1, size) : pad(x, axis, 1, 3);
      case 25:
        return rank >= 2 && x.shape().back() <= 256 ? fused_attention(tame(x)) : x * 0.25;
      default:
        return pad(x, axis, 2, size + 3);
    }
  }
  Tensor fused_attention(const Tensor& x) {
    const int64_t rows = x.shape().back(1), width = x.shape().back(0);
    const Tensor q = reshape(x, {element_count(x.shape()) / (rows * width), 1, rows, width});
    const AttentionSpec spec{.scale = 0.5, .mask = {.causal = below(2) == 0, .window = below(4)}};
    return reshape(attention(q, sin(q), q, spec).output, x.shape());
  }
  Tensor scalar_i32(int64_t value) {
    return Tensor(*graph_, graph_->constant(static_cast<double>(value), DType::i32));
  }

  std::mt19937_64 random_;
  DType dtype_;
  Graph* graph_ = nullptr;
  std::vector<Tensor> pool_;
};

}  // namespace ridgeline::testing
