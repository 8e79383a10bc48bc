// Matrix products over packed panels: blocks of b in the shared cache, of a in a core's own, a tile
// of sums in registers.
#include <algorithm>
#include <array>
#include <new>

#include "base/error.h"
#include "kernels/cpu/gemm_ladder.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd/gemm_kernels.h"
#include "kernels/cpu/simd_kernels.h"

namespace ridgeline {
namespace {

constexpr int64_t kDepth = 256;     // a panel of b then fits the first-level cache
constexpr int64_t kColumns = 4096;  // of a block of b; each pass over a serves that many
constexpr int64_t kPanels = 8;      // of a in one task
constexpr std::align_val_t kLine{64};

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Rows [row, row + height) of a at depth [k, k + depth) as fp32, one number per row for each step;
// rows past the end are zeros.
void pack_a(const SimdKernels& simd, const TensorView& a, int64_t row, int64_t height, int64_t k,
            int64_t depth, float* to) {
  std::array<float, kDepth> widened;
  const int size = info(a.dtype).size;
  for (int64_t r = 0; r < height; ++r) {
    const float* from = nullptr;
    if (row + r < a.shape[0]) {
      const char* stored = a.as<char>() + ((row + r) * a.shape[1] + k) * size;
      from = reinterpret_cast<const float*>(stored);
      if (a.dtype != DType::f32) {
        simd.load(a.dtype, stored, widened.data(), depth);
        from = widened.data();
      }
    }
    for (int64_t step = 0; step < depth; ++step)
      to[step * height + r] = from == nullptr ? 0.0f : from[step];
  }
}

// Columns [column, column + width) of b, row by row; columns past the end are zeros.
void pack_b(const SimdKernels& simd, const TensorView& b, int64_t column, int64_t width, int64_t k,
            int64_t depth, float* to) {
  const int64_t n = b.shape[1];
  const int64_t count = std::min(width, n - column);
  for (int64_t step = 0; step < depth; ++step, to += width) {
    const char* stored = b.as<char>() + ((k + step) * n + column) * info(b.dtype).size;
    simd.load(b.dtype, stored, to, count);
    std::fill(to + count, to + width, 0.0f);
  }
}

}  // namespace

AlignedFloats::AlignedFloats(AlignedFloats&& other) noexcept {
  *this = std::move(other);
}
AlignedFloats& AlignedFloats::operator=(AlignedFloats&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(count_, other.count_);
  return *this;
}
AlignedFloats::~AlignedFloats() {
  ::operator delete(data_, kLine);
}

float* AlignedFloats::at_least(int64_t count) {
  if (count <= count_) return data_;
  ::operator delete(data_, kLine);
  count_ = 0;
  data_ = static_cast<float*>(
      ::operator new(static_cast<size_t>(count) * sizeof(float), kLine, std::nothrow));
  if (data_ == nullptr)
    throw Error(ErrorKind::out_of_memory, "no memory for the packed panels of a matrix product");
  count_ = count;
  return data_;
}

void GemmLadder::run(GemmRung rung, const GemmOperands& operands, const CpuContext& context) {
  const bool vector = operands.b.shape[1] == 1;
  switch (rung) {
    case GemmRung::naive:
      return vector ? gemv_naive(operands, context) : gemm_naive(operands, context);
    case GemmRung::tiled:
      return vector ? gemv_tiled(operands, context) : gemm_tiled(operands, context);
    case GemmRung::simd:
      return vector ? gemv_simd(operands, context) : gemm_simd(operands, context);
  }
}

void GemmLadder::gemm_simd(const GemmOperands& operands, const CpuContext& context) {
  const auto& [a, b, out] = operands;
  if (out.dtype == DType::tf32) throw no_tf32();
  const SimdKernels& simd = simd_kernels(context.isa);
  const GemmKernels& gemm = gemm_kernels(context.isa);
  const int64_t height = gemm.tile_rows, width = gemm.tile_columns;
  const int64_t m = out.shape[0], n = out.shape[1], whole_depth = a.shape[1];
  const int64_t panels = divide_up(m, height);
  // Enough tasks that no thread waits long for the last one.
  const int64_t per_task = std::clamp<int64_t>(panels / (8 * context.pool.threads()), 1, kPanels);
  a_panels_.resize(static_cast<size_t>(context.pool.threads()));
  for (AlignedFloats& panel : a_panels_) panel.at_least(per_task * height * kDepth);

  for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
    const int64_t columns = std::min(kColumns, n - j0);
    const int64_t across = divide_up(columns, width);
    float* packed_b = b_panels_.at_least(across * width * kDepth);
    // Narrow results are summed in fp32 beside them.
    const bool direct = out.dtype == DType::f32;
    float* sums = direct ? out.as<float>() + j0 : sums_.at_least(m * columns);
    const int64_t stride = direct ? n : columns;
    for (int64_t k0 = 0; k0 < whole_depth; k0 += kDepth) {
      const int64_t depth = std::min(kDepth, whole_depth - k0);
      context.pool.for_each_nearby(across, [&](int64_t panel, int) {
        pack_b(simd, b, j0 + panel * width, width, k0, depth, packed_b + panel * width * depth);
      });
      context.pool.for_each_nearby(divide_up(panels, per_task), [&](int64_t task, int thread) {
        const int64_t first = task * per_task, last = std::min(panels, first + per_task);
        float* packed_a = a_panels_[static_cast<size_t>(thread)].at_least(0);
        for (int64_t panel = first; panel < last; ++panel)
          pack_a(simd, a, panel * height, height, k0, depth,
                 packed_a + (panel - first) * height * depth);
        for (int64_t j = 0; j < columns; j += width)
          for (int64_t panel = first; panel < last; ++panel) {
            const int64_t i = panel * height;
            const float* left = packed_a + (panel - first) * height * depth;
            const float* right = packed_b + j * depth;
            float* c = sums + i * stride + j;
            if (i + height <= m && j + width <= columns) {
              gemm.tile(left, right, depth, c, stride, k0 > 0);
              continue;
            }
            alignas(64) std::array<float, 1024> edge;  // a tile of any instruction set
            gemm.tile(left, right, depth, edge.data(), width, false);
            for (int64_t r = 0; r < std::min(height, m - i); ++r)
              for (int64_t at = 0; at < std::min(width, columns - j); ++at) {
                const float sum = edge[static_cast<size_t>(r * width + at)];
                c[r * stride + at] = k0 > 0 ? c[r * stride + at] + sum : sum;
              }
          }
      });
    }
    if (direct) continue;
    context.pool.for_range(m, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        simd.store(out.dtype, sums + i * columns,
                   out.as<char>() + (i * n + j0) * info(out.dtype).size, columns);
    });
  }
}

void gemv_simd(const GemmOperands& operands, const CpuContext& context) {
  const auto& [a, b, out] = operands;
  if (out.dtype == DType::tf32) throw no_tf32();
  const SimdKernels& simd = simd_kernels(context.isa);
  const GemmKernels& gemm = gemm_kernels(context.isa);
  const int64_t depth = a.shape[1];
  const int size = info(out.dtype).size;
  std::vector<float> widened;
  const float* x = b.as<float>();
  if (b.dtype != DType::f32) {
    widened.resize(static_cast<size_t>(depth));
    simd.load(b.dtype, b.data, widened.data(), depth);
    x = widened.data();
  }
  context.pool.for_range(out.shape[0], 16, [&](int64_t begin, int64_t end) {
    std::array<float, 2048> slice;
    for (int64_t i = begin; i < end; ++i) {
      const char* row = a.as<char>() + i * depth * size;
      float sum = 0;
      if (a.dtype == DType::f32) {
        sum = gemm.dot(reinterpret_cast<const float*>(row), x, depth);
      } else {
        for (int64_t k = 0; k < depth; k += static_cast<int64_t>(slice.size())) {
          const int64_t count = std::min<int64_t>(slice.size(), depth - k);
          simd.load(a.dtype, row + k * size, slice.data(), count);
          sum += gemm.dot(slice.data(), x + k, count);
        }
      }
      simd.store(out.dtype, &sum, out.as<char>() + i * size, 1);
    }
  });
}

const GemmKernels& gemm_kernels(Isa isa) {
  switch (isa) {
    case Isa::portable:
      break;
    case Isa::avx2:
      return avx2::kGemmKernels;
    case Isa::avx512:
      return avx512::kGemmKernels;
  }
  return portable::kGemmKernels;
}

const ProbeKernels& probe_kernels(Isa isa) {
  switch (isa) {
    case Isa::portable:
      break;
    case Isa::avx2:
      return avx2::kProbeKernels;
    case Isa::avx512:
      return avx512::kProbeKernels;
  }
  return portable::kProbeKernels;
}

}  // namespace ridgeline
