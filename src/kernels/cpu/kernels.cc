#include "kernels/cpu/kernels.h"

namespace ridgeline {

CpuKernel cpu_kernel(Op op) {
  static constexpr OpTable<CpuKernel> kTable = {
      [](const PointwiseRow&) -> CpuKernel { return pointwise_kernel; },
      {
          {Op::input, nullptr},
          {Op::constant, nullptr},
          {Op::iota, iota_kernel},
          {Op::softmax, softmax_kernel},
          {Op::softmax_gradient, softmax_gradient_kernel},
          {Op::log_softmax, log_softmax_kernel},
          {Op::log_softmax_gradient, log_softmax_gradient_kernel},
          {Op::sum, reduction_kernel},
          {Op::mean, reduction_kernel},
          {Op::max, reduction_kernel},
          {Op::matmul, matmul_kernel},
          {Op::attention, attention_kernel},
          {Op::attention_gradient, attention_gradient_kernel},
          {Op::gather, gather_kernel},
          {Op::scatter_add, scatter_add_kernel},
          {Op::pick, pick_kernel},
          {Op::place, place_kernel},
          {Op::argmax, argmax_kernel},
          {Op::sum_of_squares, sum_of_squares_kernel},
          {Op::adamw_update, adamw_update_kernel},
          {Op::loss_scale_update, loss_scale_update_kernel},
          {Op::append, append_kernel},
          {Op::advance, advance_kernel},
          {Op::ring_positions, ring_positions_kernel},
          {Op::reshape, reshape_kernel},  // called only where strides cannot express it
          {Op::permute, nullptr},
          {Op::expand, nullptr},
          {Op::slice, nullptr},
          {Op::concat, concat_kernel},
          {Op::pad, pad_kernel},
          // executors start collectives through a communicator
          {Op::all_reduce, nullptr},
          {Op::reduce_scatter, nullptr},
          {Op::all_gather, nullptr},
      },
  };
  return kTable[op];
}

}  // namespace ridgeline
