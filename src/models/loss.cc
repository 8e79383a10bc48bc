#include "models/loss.h"

#include "graph/scope.h"

namespace ridgeline {

Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  const ScopeGuard scope(logits.graph(), "loss");
  const Tensor log_probabilities = log_softmax(cast(logits, DType::f32)).named("log_probabilities");
  const Tensor picked = pick(log_probabilities, targets);
  return -mean(reshape(picked, {element_count(targets.shape())}), {0});
}

}  // namespace ridgeline
