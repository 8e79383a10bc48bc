#include "graph/op.h"

namespace ridgeline {

const OpInfo& info(Op op) {
  using enum OpClass;
  static constexpr OpTable<OpInfo> kTable = {
      [](const PointwiseRow& each) {
        return OpInfo{each.name, pointwise, each.inputs()};
      },
      {
          {Op::input, {"input", leaf, 0}},
          {Op::constant, {"constant", leaf, 0}},
          {Op::iota, {"iota", leaf, 0}},
          {Op::softmax, {"softmax", row, 1}},
          {Op::softmax_gradient, {"softmax_gradient", row, 2}},
          {Op::log_softmax, {"log_softmax", row, 1}},
          {Op::log_softmax_gradient, {"log_softmax_gradient", row, 2}},
          {Op::sum, {"sum", reduction, 1}},
          {Op::mean, {"mean", reduction, 1}},
          {Op::max, {"max", reduction, 1}},
          {Op::matmul, {"matmul", matmul, 2}},
          {Op::attention, {"attention", attention, kAnyNumber}},
          {Op::attention_gradient, {"attention_gradient", attention, kAnyNumber}},
          {Op::gather, {"gather", indexed, 2}},
          {Op::scatter_add, {"scatter_add", indexed, 2}},
          {Op::pick, {"pick", indexed, 2}},
          {Op::place, {"place", indexed, 2}},
          {Op::argmax, {"argmax", indexed, 1}},
          {Op::sum_of_squares, {"sum_of_squares", multi_tensor, kAnyNumber}},
          {Op::adamw_update, {"adamw_update", multi_tensor, kAnyNumber}},
          {Op::loss_scale_update, {"loss_scale_update", multi_tensor, 2}},
          {Op::append, {"append", cache, 3}},
          {Op::advance, {"advance", cache, 1}},
          {Op::ring_positions, {"ring_positions", cache, 1}},
          {Op::reshape, {"reshape", view, 1}},
          {Op::permute, {"permute", view, 1}},
          {Op::expand, {"expand", view, 1}},
          {Op::slice, {"slice", view, 1}},
          {Op::concat, {"concat", assembly, kAnyNumber}},
          {Op::pad, {"pad", assembly, 1}},
          {Op::all_reduce, {"all_reduce", collective, 1}},
          {Op::reduce_scatter, {"reduce_scatter", collective, 1}},
          {Op::all_gather, {"all_gather", collective, 1}},
      },
  };
  return kTable[op];
}

}  // namespace ridgeline
