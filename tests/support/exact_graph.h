// Random graphs of small whole numbers, infinities and NaN: every value is exact in every dtype, so
// that the order of sums, fusion, threads and vectors may not change a single result, however deep
// the graph is.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/random_graph.h"

namespace ridgeline::testing {

// What random_graph.h leaves out: mixed dtypes with casts, boolean and integer inputs, conditions
// that are computed, sums over several axes, any permutation, broadcasts of inner and outer axes at
// once, products whose operands are views, views of inputs and values twice among the outputs, and
// caches that several appends update in turn. Every two ops are a layer.
class ExactGraphMaker {
 public:
  explicit ExactGraphMaker(uint64_t seed) : random_(seed) {}

  // Sizes at which kernels cut rows, columns and products into parts.
  ExactGraphMaker& large() {
    is_large_ = true;
    most_elements_ = 150000;
    return *this;
  }

  RandomGraph make(int ops);

 private:
  int64_t below(int64_t bound);
  bool one_in(int64_t count) { return below(count) == 0; }
  DType floating();
  int64_t size();
  Shape shape(int least_rank, int64_t most_elements);

  Tensor add_input(DType dtype, const Shape& shape, Role role = Role::data);
  Tensor pick();
  Tensor pick_condition(const Shape& like);
  // Of any shape that broadcasts with x, in its dtype.
  Tensor partner(const Tensor& x);
  Tensor number(const Tensor& like) { return scalar(like, static_cast<double>(below(7) - 3)); }
  Tensor indices(int64_t count, int64_t limit);

  Tensor small(const Tensor& x);
  Tensor view(const Tensor& x);
  Tensor views(Tensor x);
  Tensor pointwise();
  Tensor reduction();
  Tensor product();
  Tensor indexed();
  Tensor assembled();
  Tensor cached();
  Tensor step();

  std::mt19937_64 random_;
  bool is_large_ = false;
  int64_t most_elements_ = 3000;
  RandomGraph* made_ = nullptr;
  std::vector<Tensor> pool_;        // floating point
  std::vector<Tensor> conditions_;  // boolean
  Tensor position_, cache_;         // the newest of a cache that is appended to
};

}  // namespace ridgeline::testing
