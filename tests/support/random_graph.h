// Random small graphs for differential tests: every op, odd shapes, broadcasts and views, tame
// values.
#pragma once

#include <random>
#include <utility>

#include "graph/tensor.h"
#include "support/interpreter/interpreter.h"

namespace ridgeline::testing {

struct RandomGraph {
  Graph graph;
  InterpreterInputs inputs;
};

class RandomGraphMaker {
 public:
  explicit RandomGraphMaker(uint64_t seed, DType dtype = DType::f32)
      : random_(seed), dtype_(dtype) {}

  // Leaves out what has no gradient: gradients of attention, its log_sum_exp, and caches.
  RandomGraphMaker& differentiable() {
    is_differentiable_ = true;
    return *this;
  }

  RandomGraph make(int ops);

  // Products with pointwise work behind them, all of them outputs.
  RandomGraph make_products(int products);

 private:
  int64_t below(int64_t bound);
  Tensor pick_tensor();
  Tensor pick_from_end(int i) { return pool_[pool_.size() - 1 - static_cast<size_t>(i)]; }

  void add_input(RandomGraph& result);

  // An optimizer step on tensors of its own, whose storage it replaces, and what follows from them;
  // the gradient is a value of the graph in any layout. Values of the parameter as it was stay in
  // the pool.
  std::vector<std::pair<const char*, Tensor>> add_update(RandomGraph& result);

  // Rows of any layout that go into a cache of their own, what reads it before and after, and the
  // position behind its last reader.
  std::vector<std::pair<const char*, Tensor>> add_append(RandomGraph& result);

  // Squashed into [-1, 1], so that chains of ops neither overflow nor lose all precision.
  Tensor tame(const Tensor& x) { return tanh(x); }

  Tensor partner(const Tensor& x);
  Tensor sum_like(const Tensor& x) { return mean(x, {below(x.shape().rank())}); }

  Tensor step();
  // Values in the place of x: concatenations of values that mostly nobody else reads, behind views,
  // and of concatenations.
  Tensor side_by_side(const Tensor& x, int depth);
  Tensor part_like(const Tensor& x, int depth);
  // A product and pointwise work of the kinds that libraries can do with it, and some that they
  // cannot.
  Tensor product_pattern(const Tensor& x);
  // softmax(f(Q K^T)) V in single nodes, for the pass that finds it.
  Tensor attention_pattern(const Tensor& x);
  Tensor fused_attention(const Tensor& x);
  static Shape reduced(Shape shape);
  // Some in increasing order, the others all the same.
  Tensor indices(int64_t count, int64_t limit);
  Tensor as_rows(const Tensor& x);
  // One for each row of x, in the shape of the rows.
  Tensor row_indices(const Tensor& x);
  static Tensor transpose_any(const Tensor& x) { return x.shape().rank() >= 2 ? transpose(x) : x; }
  Tensor scalar_i32(int64_t value);

  std::mt19937_64 random_;
  DType dtype_;
  bool is_differentiable_ = false;
  Graph* graph_ = nullptr;
  std::vector<Tensor> pool_;
};

}  // namespace ridgeline::testing
