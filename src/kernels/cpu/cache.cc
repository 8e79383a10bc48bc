// Stores rows in a cache, advances its position, and finds which position each slot holds.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/chunk.h"
#include "kernels/cpu/kernels.h"
#include "kernels/walk.h"

namespace ridgeline {

int64_t position_of(const TensorView& position) {
  const int32_t value = position.as<int32_t>()[0];
  if (value < 0)
    throw Error(ErrorKind::usage,
                fmt::format("the position in a cache is {}, expected at least 0", value),
                "set the position to the number of rows that the cache has seen");
  return value;
}

void append_kernel(const KernelCall& call, const CpuContext& context) {
  const TensorView &rows = call.inputs[1], &cache = call.outputs[0];
  const int64_t first = position_of(call.inputs[2]);
  const int64_t slots = cache.shape.back(1), count = rows.shape.back(1), width = cache.shape.back();
  const int64_t stored = std::min(slots, count), step = rows.strides.back();
  const TensorView batch = batch_of(rows);
  const Walk walk = make_walk(batch.shape, {&batch, 1});
  const auto size = static_cast<size_t>(info(cache.dtype).size);
  const auto store = [&](int64_t item) {
    const int64_t outer = item / stored, row = count - stored + item % stored;
    char* to = element_address(cache, (outer * slots + (first + row) % slots) * width);
    const char* from =
        element_address(rows, walk.element_offset(0, outer) + row * rows.strides.back(1));
    if (step == 1 || width == 1) {
      std::memcpy(to, from, static_cast<size_t>(width) * size);
      return;
    }
    for (int64_t column = 0; column < width;
         ++column, to += size, from += step * static_cast<int64_t>(size))
      std::memcpy(to, from, size);
  };
  context.pool.for_range(element_count(batch.shape) * stored, std::max<int64_t>(1, kGrain / width),
                         [&](int64_t begin, int64_t end) {
                           for (int64_t item = begin; item < end; ++item) store(item);
                         });
}

void advance_kernel(const KernelCall& call, const CpuContext&) {
  const int64_t after =
      position_of(call.inputs[0]) + std::get<RowCount>(call.node.attributes.detail).count;
  if (after > INT32_MAX)
    throw Error(ErrorKind::usage,
                fmt::format("the position in a cache would be {}, more than an i32 counts", after),
                "start again at position 0");
  call.outputs[0].as<int32_t>()[0] = static_cast<int32_t>(after);
}

void ring_positions_kernel(const KernelCall& call, const CpuContext&) {
  const int64_t last =
      position_of(call.inputs[0]) + std::get<RowCount>(call.node.attributes.detail).count - 1;
  const int64_t slots = call.outputs[0].shape[0];
  auto* positions = call.outputs[0].as<int32_t>();
  const int64_t newest = (last % slots + slots) % slots;  // the slot of the last row
  for (int64_t slot = 0; slot < slots; ++slot)
    positions[slot] = static_cast<int32_t>(last - newest + slot - (slot > newest ? slots : 0));
}

}  // namespace ridgeline
