// A block's share of products in a resident kernel: weights from the ring, sums of 16-row tiles, the largest result.
#pragma once

#include "resident.cuh"

namespace ridgeline {

RESIDENT void load_matrix(uint32 (&a)[4], uint32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(address)
               : "memory");
}

RESIDENT void load_matrix_transposed(uint32 (&a)[4], uint32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(address)
               : "memory");
}

RESIDENT uint32 load_shared(uint32 address) {
  uint32 x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}

RESIDENT void multiply(float (&d)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
      "%2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The rows of a product that a block computes: pairs of rows, divided evenly.
struct Share {
  int first, rows;
};

RESIDENT Share share_of(int rows) {
  const uint32 pairs = rows / 2, block = blockIdx.x;
  const uint32 first = pairs * block / kBlocks, last = pairs * (block + 1) / kBlocks;
  return {static_cast<int>(2 * first), static_cast<int>(2 * (last - first))};
}

// Fragments of four steps of 16 columns: of the weights of 16 rows, and of x.
struct Fragments {
  uint32 a[4][4], b[4][2];
  RESIDENT void load(uint32 from, uint32 x, int count) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i < count) {
        load_matrix(a[i], from + i * 32);
        b[i][0] = load_shared(x + i * 32), b[i][1] = load_shared(x + i * 32 + 16);
      }
  }
  RESIDENT void multiply_all(float (&sums)[2][4], int count) const {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i < count) multiply(sums[i % 2], a[i], b[i][0], b[i][1]);
  }
};

// Multiplies `count` steps of a stage, from step `first` on, by x in shared memory. The 16 sums go to `partial`.
RESIDENT void multiply_stage(uint32 stage, int first, int count, int steps, uint32 x, float* partial) {
  const int lane = threadIdx.x % 32;
  uint32 from = stage + (lane % 16) * (steps * 32 + kRowPadding) + (lane / 16) * 16 + first * 32;
  x += first * 32;
  float sums[2][4] = {};
#pragma unroll 1
  for (; count > 0; count -= 4) {
    Fragments now;
    now.load(from, x, count);
    now.multiply_all(sums, count);
    from += 128, x += 128;
  }
  if (lane % 4 == 0) {
    partial[lane / 4] = sums[0][0] + sums[1][0];
    partial[lane / 4 + 8] = sums[0][2] + sums[1][2];
  }
}

// A block's share of a product: `stages` of the ring, of which `chunks` make a tile of 16 rows. Few stages are shared
// by 1 << shift warps each and stay in the ring until they are released; of many, warps take one after the other (shift
// is negative). partial[slot][row] has slots_of() slots per tile.
template <class R>
RESIDENT void multiply_rows(R& ring, int stages, int shift, int chunks, int steps, uint32 x, float* partial) {
  const int warp = threadIdx.x / 32;
  x += threadIdx.x % 4 * 4;
  if (shift >= 0) {
    const int mine = warp >> shift, part = warp & ((1 << shift) - 1);
    if (mine < stages) {
      R at = ring;
      at.skip(mine);
      at.wait();
      int chunk = mine;
      while (chunk >= chunks) chunk -= chunks;
      const int first = part * steps >> shift, last = (part + 1) * steps >> shift;
      multiply_stage(at.here(), first, last - first, steps, x + chunk * steps * 32, partial + warp * 16);
    }
    ring.skip(stages);
    return;
  }
  int chunk = 0;
#pragma unroll 1
  for (int i = 0; i < stages; ++i) {
    ring.wait();
    if (i % kWarps == warp) multiply_stage(ring.here(), 0, steps, steps, x + chunk * steps * 32, partial + i * 16);
    if (++chunk == chunks) chunk = 0;
    ring.done();
  }
}

RESIDENT int slots_of(const ResidentItem& item) {
  return item.shift >= 0 ? item.chunks << item.shift : item.chunks;
}

RESIDENT float total_of(const float* partial, int slots, int row) {
  const float* from = partial + row / 16 * slots * 16 + row % 16;
  float sum = 0;
#pragma unroll 2
  for (int slot = 0; slot < slots; ++slot) sum += from[slot * 16];
  return sum;
}

// The producer: loads tiles of 16 rows, or of 8 rows of one half and the matching 8 of the other.
template <class R>
RESIDENT void load_product(R& ring, const char* weights, int first, int all, int steps, int chunks, int half_rows) {
  const int lane = threadIdx.x % 32;
  const int height = half_rows ? 8 : 16, bytes = steps * 32;
  const int64 pitch = static_cast<int64>(bytes) * chunks;
#pragma unroll 1
  for (int row = 0; row < all; row += height) {
    const int rows = all - row < height ? all - row : height;
    const bool mine = lane < 16 && lane % height < rows;
    const char* from = weights + (first + row + lane % height + lane / height * half_rows) * pitch;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk, from += bytes) {
      mbarrier_wait(ring.empty(), ring.parity ^ 1);
      if (lane == 0) mbarrier_expect(ring.full(), (half_rows ? 2 : 1) * rows * bytes);
      __syncwarp();
      if (mine) bulk_copy(ring.here() + lane * (bytes + kRowPadding), from, bytes, ring.full());
      ring.next();
    }
  }
}

// A value and its index, for the largest over all blocks.
struct Best {
  float value;
  int index;
};

RESIDENT Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

RESIDENT Best warp_best(Best x) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2) x = better(x, {__shfl_xor_sync(~0u, x.value, i), __shfl_xor_sync(~0u, x.index, i)});
  return x;
}

RESIDENT Best block_best(Best x, Best* scratch) {
  x = warp_best(x);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  sync_consumers();
  x = scratch[0];
#pragma unroll
  for (int i = 1; i < kWarps; ++i) x = better(x, scratch[i]);
  return x;
}

}  // namespace ridgeline
