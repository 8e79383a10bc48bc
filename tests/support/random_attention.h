// Random softmax(f(Q K^T)) V with its gradients, for tests of attention with a function of scores.
#pragma once

#include <algorithm>
#include <random>

#include "autodiff/gradient.h"
#include "support/random_graph.h"

namespace ridgeline::testing {

class RandomAttentionMaker {
 public:
  explicit RandomAttentionMaker(uint64_t seed, DType dtype = DType::f32)
      : random_(seed), dtype_(dtype) {}

  // The forward only; inputs are q, k, v, d_output and what f reads.
  RandomGraph make() {
    static constexpr int64_t kLengths[] = {1, 7, 33, 64, 65, 130, 200};
    static constexpr int64_t kWidths[] = {8, 16, 24, 64, 80, 128};
    batch_ = 1 + below(2);
    heads_ = 1 + below(3);
    queries_ = kLengths[below(7)];
    keys_ = below(2) == 0 ? queries_ : kLengths[below(7)];
    return make(kWidths[below(6)], [&](Tensor scores) {
      for (int64_t steps = 1 + below(4); steps > 0; --steps) scores = step(scores);
      return below(2) == 0 ? causal(scores) : scores;
    });
  }

  // Queries see the keys of their own document, if there are any; long enough for kernels to leave
  // out the rest.
  RandomGraph make_documents() {
    static constexpr int64_t kLengths[] = {256, 290, 333, 400};
    static constexpr int64_t kWidths[] = {32, 64, 96, 128, 192};
    batch_ = 1 + below(2);
    heads_ = 1 + below(2);
    queries_ = kLengths[below(4)];
    keys_ = below(2) == 0 ? queries_ : kLengths[below(4)];
    return make(kWidths[below(5)], [&](Tensor scores) {
      if (below(3) == 0) scores = step(scores);
      const int64_t when = below(4);  // in the function, in the kernels' own mask, or not at all
      if (when == 0) scores = causal(scores);
      const int64_t batches = below(2) == 0 ? 1 : batch_, heads = below(2) == 0 ? 1 : heads_;
      const Tensor of_queries = enter_documents({batches, heads, queries_, 1});
      const Tensor of_keys = enter_documents({batches, heads, 1, keys_});
      const Tensor same = equal(of_queries, of_keys);
      scores = below(3) == 0 ? where(equal(same, scalar(same, 0)), hidden(scores), scores)
                             : where(same, scores, hidden(scores));
      return when == 1 ? causal(scores) : scores;
    });
  }

  // The derivative of |s| as the root of its square is not a number at 0, the score of padding.
  RandomGraph make_root_of_square() {
    queries_ = 40;
    keys_ = 72;
    return make(32, [&](Tensor scores) { return sqrt(scores * scores) - scores * 0.5; });
  }

 private:
  struct Positions {
    Tensor query, key;
  };

  template <class Function>
  RandomGraph make(int64_t width, Function f) {
    made_ = {};
    const Tensor q = enter("q", {batch_, heads_, queries_, width}, dtype_, 0.5);
    const Tensor k = enter("k", {batch_, heads_, keys_, width}, dtype_, 0.5);
    const Tensor v = enter("v", {batch_, heads_, keys_, width}, dtype_);
    const Tensor scores = f(cast(matmul(q, transpose(k)), DType::f32));
    const Tensor output = matmul(cast(softmax(scores), dtype_), v).named("output");
    enter("d_output", output.shape(), dtype_);
    made_.graph.mark_output("output", output.value());
    return std::move(made_);
  }

  static Tensor hidden(const Tensor& scores) {
    return scalar(scores, -std::numeric_limits<double>::infinity());
  }

  Tensor causal(const Tensor& scores) {
    const auto [query, key] = positions();
    return where(less_equal(key, query), scores, hidden(scores));
  }

  // The documents of queries or keys, in order or in any order. Some may end in places that are in
  // none, others have a place far from the rest of its document.
  Tensor enter_documents(const Shape& shape) {
    const std::string name = "operand" + std::to_string(made_.inputs.size());
    const int64_t length = shape[2] * shape[3], count = 1 + below(4), kind = below(4);
    const double none = shape[3] == 1 ? -100 : -200;
    const auto document = [&] { return static_cast<double>(below(count)); };
    std::vector<double>& values = made_.inputs[name];
    for (int64_t row = 0; row < shape[0] * shape[1]; ++row) {
      std::vector<double> own;
      for (int64_t i = 0; i < length; ++i) own.push_back(document());
      if (kind > 0) std::sort(own.begin(), own.end());
      if (kind == 2) std::fill(own.begin() + below(length), own.end(), none);
      if (kind == 3) own[static_cast<size_t>(below(length))] = document();
      values.insert(values.end(), own.begin(), own.end());
    }
    return input(made_.graph, name, {DType::f32, shape});
  }

  int64_t below(int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random_);
  }

  Tensor enter(const std::string& name, const Shape& shape, DType dtype, double size = 1) {
    std::vector<double>& values = made_.inputs[name];
    for (int64_t i = 0; i < element_count(shape); ++i)
      values.push_back(round_to(dtype, size * std::normal_distribution<double>()(random_)));
    return input(made_.graph, name, {dtype, shape});
  }

  // Something that broadcasts to the scores.
  Tensor enter_operand() {
    Shape shape = {batch_, heads_, queries_, keys_};
    for (int axis = 0; axis < 4; ++axis)
      if (below(2) == 0) shape[axis] = 1;
    const DType dtype = below(3) == 0 ? DType::bf16 : DType::f32;
    const std::string name = "operand" + std::to_string(made_.inputs.size());
    return cast(enter(name, shape, dtype), DType::f32);
  }

  Positions positions() {
    return {cast(reshape(iota(made_.graph, queries_), {queries_, 1}), DType::f32),
            cast(iota(made_.graph, keys_), DType::f32)};
  }

  Tensor step(const Tensor& s) {
    switch (below(10)) {
      case 0:
        return s * 0.3;
      case 1:
        return tanh(s / 5) * 5;
      case 2:
        return s + enter_operand();
      case 3:
        return s * sigmoid(enter_operand());
      case 4: {
        const auto [query, key] = positions();
        return s + (key - query) * 0.01 * enter_operand();
      }
      case 5:
        return s * sigmoid(s) + sin(s);
      case 6: {
        const auto [query, key] = positions();
        return where(less(key, query * 0.5 + 1), s, s - 3);
      }
      case 7:
        return maximum(s, enter_operand());
      case 8:
        return -s / (exp(enter_operand() * 0.3) + 0.5);
      default:
        return where(less(enter_operand(), scalar(s, 0.3)), s, s * 0.5);
    }
  }

  std::mt19937_64 random_;
  DType dtype_;
  int64_t batch_ = 1, heads_ = 1, queries_ = 1, keys_ = 1;
  RandomGraph made_;
};

// Adds the gradients of all inputs, for a gradient "d_output" of "output".
inline Graph with_attention_gradients(Graph graph) {
  Cotangent cotangent;
  std::vector<Tensor> sources;
  for (Value value : graph.inputs()) {
    if (graph.node(value).name == "d_output")
      cotangent.gradient = Tensor(graph, value);
    else
      sources.emplace_back(graph, value);
  }
  cotangent.output = Tensor(graph, graph.outputs()[0].value);
  const std::vector<Tensor> gradients = gradient({&cotangent, 1}, sources);
  for (size_t i = 0; i < sources.size(); ++i)
    graph.mark_output("d_" + graph.node(sources[i].value()).name, gradients[i].value());
  return graph;
}

}  // namespace ridgeline::testing
