// Sums over ranks on the host: in rank order, in fp32, rounded once, so that the result is bitwise
// that of one process that adds the same buffers in that order.
#pragma once

#include <cstdint>
#include <span>

#include "graph/dtype.h"

namespace ridgeline {

// outs[...][i] = ((parts[0][i] + parts[1][i]) + parts[2][i]) + ..., for `count` elements. An output
// may be one of the parts.
void sum_in_rank_order(DType dtype, std::span<const void* const> parts, std::span<void* const> outs,
                       int64_t count);

}  // namespace ridgeline
