// A kernel of your own for `ridgeline kernel --source examples/own_attention.cu --entry own_attention`.
//
// Attention without the S x S scores, without tensor cores: a block keeps 64 queries and loops over the keys, 32 at a
// time, in shared memory. Four threads share a query: each holds every fourth element of it and of its output, so
// that the four read neighbouring words. The softmax is updated with every group of keys (online softmax): when the
// maximum grows, the sums so far are scaled down.
//
// The comments below tell Ridgeline how to launch the kernel; docs/own-kernels.md has the whole contract.
//
// ridgeline: grid = (seq_len + 63) / 64, heads, batch
// ridgeline: block = 256
// ridgeline: shared = 2 * 32 * head_dim * 4
#include "own_attention.cuh"  // Element, to_float, to_element

constexpr int kQueries = 64;  // of a block
constexpr int kKeys = 32;     // of a tile
constexpr int kShare = 4;     // threads per query
constexpr int kMine = HEAD_DIM / kShare;
constexpr int kGroup = 8;  // keys between two updates of the maximum
static_assert(HEAD_DIM % kShare == 0, "head_dim must be a multiple of 4");

// Returns the sum over the four threads of a query, to all four.
__device__ float shared_sum(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

extern "C" __global__ void __launch_bounds__(256)
    own_attention(const Element* q, const Element* k, const Element* v, Element* output, int batch, int heads,
                  int seq_len, int head_dim, float scale, int causal) {
  extern __shared__ float tiles[];
  float* k_tile = tiles;
  float* v_tile = tiles + kKeys * HEAD_DIM;
  const long long head = blockIdx.z * static_cast<long long>(heads) + blockIdx.y;
  const long long offset = head * seq_len * HEAD_DIM;
  const int first_query = blockIdx.x * kQueries;
  const int query = first_query + threadIdx.x / kShare;
  const int part = threadIdx.x % kShare;
  // exp(x) = exp2(x * log2 e): the factor is folded into the scale.
  const float scale_log2 = scale * 1.4426950408889634f;

  float mine[kMine], sums[kMine] = {};
  const long long row = offset + static_cast<long long>(min(query, seq_len - 1)) * HEAD_DIM;
  for (int i = 0; i < kMine; ++i) mine[i] = to_float(q[row + i * kShare + part]) * scale_log2;
  float largest = -INFINITY, total = 0;

  const int keys = causal ? min(seq_len, first_query + kQueries) : seq_len;
  for (int first_key = 0; first_key < keys; first_key += kKeys) {
    __syncthreads();  // all threads are done with the previous tile
    for (int i = threadIdx.x; i < kKeys * HEAD_DIM; i += blockDim.x) {
      const bool inside = first_key + i / HEAD_DIM < seq_len;
      const long long at = offset + static_cast<long long>(first_key) * HEAD_DIM + i;
      k_tile[i] = inside ? to_float(k[at]) : 0;
      v_tile[i] = inside ? to_float(v[at]) : 0;
    }
    __syncthreads();
    for (int group = 0; group < kKeys; group += kGroup) {
      float scores[kGroup], top = largest;
      for (int j = 0; j < kGroup; ++j) {
        float dot = 0;
        for (int i = 0; i < kMine; ++i) dot += mine[i] * k_tile[(group + j) * HEAD_DIM + i * kShare + part];
        const int key = first_key + group + j;
        const bool seen = key < seq_len && (!causal || key <= query);
        scores[j] = seen ? shared_sum(dot) : (shared_sum(dot), -INFINITY);  // all four take part in the sum
        top = fmaxf(top, scores[j]);
      }
      if (top == -INFINITY) continue;  // no key is visible so far
      const float shrink = exp2f(largest - top);
      largest = top;
      total *= shrink;
      for (int i = 0; i < kMine; ++i) sums[i] *= shrink;
      for (int j = 0; j < kGroup; ++j) {
        const float weight = exp2f(scores[j] - top);
        total += weight;
        for (int i = 0; i < kMine; ++i) sums[i] += weight * v_tile[(group + j) * HEAD_DIM + i * kShare + part];
      }
    }
  }
  if (query >= seq_len) return;
  for (int i = 0; i < kMine; ++i) output[row + i * kShare + part] = to_element(sums[i] / total);
}
