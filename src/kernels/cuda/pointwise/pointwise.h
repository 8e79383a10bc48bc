// Plans pointwise ops and everything that is a copy with a cast.
#pragma once

#include "kernels/cuda/kernels.h"

namespace ridgeline {

// `out` may have any strides; a part of a padded tensor is not contiguous.
CudaLaunch plan_pointwise_op(Op op, std::span<const TensorView> inputs, const TensorView& out);

// `from` broadcast to the shape of `to`, cast to its dtype.
CudaLaunch plan_copy(const TensorView& from, const TensorView& to);

}  // namespace ridgeline
