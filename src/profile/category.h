// Classifies kernels by the kind of work: our own by their nodes, others by their name.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "graph/graph.h"
#include "plan/fuse.h"

namespace ridgeline {

enum class Category : uint8_t {
  gemm,
  attention,
  softmax,
  norm,
  elementwise,
  memory,
  communication,
  other,
};
inline constexpr std::array kCategories = {
    Category::gemm,        Category::attention, Category::softmax,       Category::norm,
    Category::elementwise, Category::memory,    Category::communication, Category::other};
std::string_view name(Category category);

// The category of a single node's kernel. A reduction belongs to the softmax or norm that its scope
// names.
Category category_of(const Graph& graph, const Node& node);
// The category of a kernel of a plan: that of the library call, or of the folds of a generated
// kernel; without folds it is elementwise, and without arithmetic a copy.
Category category_of(const Graph& graph, const Group& group);
// The category of a foreign kernel: "nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT" is a gemm.
Category category_of_name(std::string_view kernel);

}  // namespace ridgeline
