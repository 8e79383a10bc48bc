// Which arithmetic computes the products of a graph: a device may emulate an fp32 product by three
// fp16 products.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

// The number of products of `dtype` per product that the graph asks for.
struct ProductPath {
  DType dtype = DType::f32;
  int products = 1;

  bool operator==(const ProductPath&) const = default;
};

// The path by which a device computes products of an op with operands of a dtype.
using ProductPathOf = std::function<ProductPath(Op op, DType dtype)>;

struct PathMacs {
  ProductPath path;
  double macs = 0;  // of the dtype asked for
};

// Multiply-accumulates of a stage by path, in the order of first use; empty: it has no products.
std::vector<PathMacs> product_paths(const Graph& graph, const Stage& stage,
                                    const ProductPathOf& path_of);

}  // namespace ridgeline
