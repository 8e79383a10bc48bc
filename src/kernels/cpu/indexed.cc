// Rows of a table by index, and one element of each row by index, with their gradients; and argmax.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "kernels/cpu/chunk.h"
#include "kernels/cpu/kernels.h"
#include "kernels/walk.h"

namespace ridgeline {
namespace {

int64_t rows_worth_a_task(int64_t width) {
  return std::max<int64_t>(1, kGrain / width);
}

int64_t index_at(const TensorView& indices, int64_t i, int64_t count) {
  const int32_t index = indices.as<int32_t>()[i * indices.strides[0]];
  if (index < 0 || index >= count)
    throw Error(
        ErrorKind::usage,
        fmt::format("element {} of the indices is {}, expected one in [0, {})", i, index, count),
        "check the token ids against the size of the vocabulary");
  return index;
}

void copy_element(const TensorView& from, int64_t at, const TensorView& to, int64_t at_to) {
  std::memcpy(element_address(to, at_to), element_address(from, at),
              static_cast<size_t>(info(to.dtype).size));
}

}  // namespace

void gather_kernel(const KernelCall& call, const CpuContext& context) {
  const TensorView& table = call.inputs[0];
  const TensorView& indices = call.inputs[1];
  const TensorView& out = call.outputs[0];
  const int64_t width = out.shape[1];
  const auto row_bytes = static_cast<size_t>(width * info(out.dtype).size);
  context.pool.for_range(out.shape[0], rows_worth_a_task(width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t from = index_at(indices, row, table.shape[0]) * table.strides[0];
      if (table.strides[1] == 1) {
        std::memcpy(element_address(out, row * width), element_address(table, from), row_bytes);
        continue;
      }
      for (int64_t column = 0; column < width; ++column)
        copy_element(table, from + column * table.strides[1], out, row * width + column);
    }
  });
}

// Updates are first sorted by their row, so that one thread adds to each row, in index order.
void scatter_add_kernel(const KernelCall& call, const CpuContext& context) {
  const SimdKernels& simd = simd_kernels(context.isa);
  const TensorView& indices = call.inputs[0];
  const TensorView& updates = call.inputs[1];
  const TensorView& out = call.outputs[0];
  const int64_t rows = out.shape[0];
  const int64_t width = out.shape[1];
  const int64_t count = indices.shape[0];
  std::vector<int64_t> first(static_cast<size_t>(rows) + 1, 0);
  for (int64_t i = 0; i < count; ++i) ++first[static_cast<size_t>(index_at(indices, i, rows)) + 1];
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) first[row + 1] += first[row];
  std::vector<int64_t> sorted(static_cast<size_t>(count));
  std::vector<int64_t> next(first.begin(), first.end() - 1);
  for (int64_t i = 0; i < count; ++i)
    sorted[static_cast<size_t>(next[static_cast<size_t>(index_at(indices, i, rows))]++)] = i;

  context.pool.for_range(rows, rows_worth_a_task(width), [&](int64_t begin, int64_t end) {
    ChunkBuffer total, buffer;
    for (int64_t row = begin; row < end; ++row)
      for (int64_t column = 0; column < width; column += kChunk) {
        const int64_t n = std::min(kChunk, width - column);
        std::fill_n(total.begin(), n, 0.0f);
        for (auto at = first[static_cast<size_t>(row)]; at < first[static_cast<size_t>(row) + 1];
             ++at) {
          const int64_t from =
              sorted[static_cast<size_t>(at)] * updates.strides[0] + column * updates.strides[1];
          const float* update = load_chunk(simd, updates, from, updates.strides[1], n, buffer);
          const PointwiseOperand operands[] = {{.data = total.data()}, {.data = update}};
          simd.pointwise(Op::add, operands, total.data(), n);
        }
        simd.store(out.dtype, total.data(), element_address(out, row * width + column), n);
      }
  });
}

// Pieces of rows are searched in parallel; of equal elements the first counts, so that the number
// of threads does not change the result.
void argmax_kernel(const KernelCall& call, const CpuContext& context) {
  struct Best {
    float value;
    int64_t index;
  };
  const auto is_better = [](float value, float than) {
    return value > than || (value != value && than == than);
  };
  const SimdKernels& simd = simd_kernels(context.isa);
  const TensorView& x = call.inputs[0];
  const int64_t rows = x.shape[0], width = x.shape[1], pieces = (width + kGrain - 1) / kGrain;
  std::vector<Best> best(static_cast<size_t>(rows * pieces));
  context.pool.for_each(rows * pieces, [&](int64_t task, int) {
    const int64_t row = task / pieces, begin = task % pieces * kGrain;
    Best& found = best[static_cast<size_t>(task)];
    ChunkBuffer buffer;
    for (int64_t at = begin; at < std::min(begin + kGrain, width); at += kChunk) {
      const int64_t n = std::min(kChunk, width - at);
      const float* values =
          load_chunk(simd, x, row * x.strides[0] + at * x.strides[1], x.strides[1], n, buffer);
      const float largest = simd.max(values, n);
      if (at > begin && !is_better(largest, found.value)) continue;
      int64_t i = 0;
      while (largest == largest ? values[i] != largest : values[i] == values[i]) ++i;
      found = {largest, at + i};
    }
  });
  for (int64_t row = 0; row < rows; ++row) {
    Best chosen = best[static_cast<size_t>(row * pieces)];
    for (int64_t piece = 1; piece < pieces; ++piece) {
      const Best& other = best[static_cast<size_t>(row * pieces + piece)];
      if (is_better(other.value, chosen.value)) chosen = other;
    }
    call.outputs[0].as<int32_t>()[row] = static_cast<int32_t>(chosen.index);
  }
}

void pick_kernel(const KernelCall& call, const CpuContext&) {
  const TensorView& x = call.inputs[0];
  for (int64_t row = 0; row < x.shape[0]; ++row) {
    const int64_t column = index_at(call.inputs[1], row, x.shape[1]);
    copy_element(x, row * x.strides[0] + column * x.strides[1], call.outputs[0], row);
  }
}

void place_kernel(const KernelCall& call, const CpuContext& context) {
  const TensorView& values = call.inputs[1];
  const TensorView& out = call.outputs[0];
  const int64_t width = out.shape[1];
  const auto row_bytes = static_cast<size_t>(width * info(out.dtype).size);
  context.pool.for_range(out.shape[0], rows_worth_a_task(width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::memset(element_address(out, row * width), 0, row_bytes);
      copy_element(values, row * values.strides[0], out,
                   row * width + index_at(call.inputs[0], row, width));
    }
  });
}

}  // namespace ridgeline
