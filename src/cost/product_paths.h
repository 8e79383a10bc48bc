// Which arithmetic makes the products of a graph: a device may make one of fp32 out of three of
// fp16.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

// `products` of `dtype` for one of the dtype that the graph asks for.
struct ProductPath {
  DType dtype = DType::f32;
  int products = 1;

  bool operator==(const ProductPath&) const = default;
};

// A device's way to the products of an op whose operands have a dtype.
using ProductPathOf = std::function<ProductPath(Op op, DType dtype)>;

struct PathMacs {
  ProductPath path;
  double macs = 0;  // of the dtype asked for
};

// By path, in the order of first use; empty: the stage multiplies no matrices.
std::vector<PathMacs> product_paths(const Graph& graph, const Stage& stage,
                                    const ProductPathOf& path_of);

}  // namespace ridgeline
