// Scopes name the parts of a model: nodes added while a guard is alive belong to its scope.
//
//   const ScopeGuard layer(graph, "layers.3");
//   {
//     const ScopeGuard norm(graph, "norm");     // layers.3.norm
//     x = rms_norm(x, weight, epsilon);
//   }
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

// Leaf names that tell the kind of work in a scope, for any model.
inline constexpr std::string_view kSoftmaxScope = "softmax";
inline constexpr std::string_view kNormScope = "norm";

class ScopeGuard {
 public:
  // Enters a scope inside the current one. Repeating the current name adds nothing, so that a part
  // can be built alone or inside a larger one. The graph must outlive the guard, and must not be
  // replaced in the meantime.
  ScopeGuard(Graph& graph, std::string_view name);
  ~ScopeGuard() { graph_.enter_scope(before_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Graph& graph_;
  std::string before_;
};

// "layers", "3", "attention", "scores" of "layers.3.attention.scores".
std::vector<std::string> scope_parts(std::string_view path);

// "scores" of "layers.3.attention.scores".
std::string_view scope_leaf(std::string_view path);

// "layers.3.attention" of "layers.3.attention.scores" and "layers.3.attention.values".
std::string_view common_scope(std::string_view a, std::string_view b);

// "layers.3" of "layers.3.attention.scores"; empty where a path has no numbered part.
std::string_view layer_scope(std::string_view path);

// "layers.*.attention.scores": the same part of every layer.
std::string scope_of_any_layer(std::string_view path);

}  // namespace ridgeline
