// ToyModel from the mixed-precision part of CS336's second assignment, which asks for its dtypes:
// two linear layers with a ReLU and a layer norm between them, and a cross entropy.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace ridgeline {

struct ToyConfig {
  int64_t examples = 4;
  int64_t in_features = 8;
  int64_t hidden = 10;
  int64_t out_features = 5;
};

// Inputs "x", "targets" and the parameters fc1.weight, ln.weight, ln.bias, fc2.weight; nodes named
// "fc1", "ln" and "logits"; outputs "loss" and the gradient of every parameter p as "d_p".
// `forward_pass` is applied before gradients are taken.
Graph toy_training_graph(const ToyConfig& config,
                         const std::function<Graph(const Graph&)>& forward_pass);

}  // namespace ridgeline
