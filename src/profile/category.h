// What kind of work a kernel does: from its nodes where it is ours, from its name where it is not.
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

// Of the kernel of one node. A reduction is part of the softmax or norm whose scope it is in.
Category category_of(const Graph& graph, const Node& node);
// Of a kernel of a plan: of the library call, or of what a generated kernel folds; without folds it
// is elementwise work, and without any arithmetic a copy.
Category category_of(const Graph& graph, const Group& group);
// Of a kernel of anybody else, such as "nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT": a gemm.
Category category_of_name(std::string_view kernel);

}  // namespace ridgeline
