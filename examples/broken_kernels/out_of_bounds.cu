// Computes the right values, and also writes one row past the end of the whole tensor.
// ridgeline: grid = seq_len, heads, batch
// ridgeline: block = 1
#include "own_attention.cuh"

extern "C" __global__ void broken(const Element* q, const Element* k, const Element* v,
                                  Element* output, int batch, int heads, int seq_len, int head_dim,
                                  float scale, int causal) {
  const long long head = (blockIdx.z * static_cast<long long>(heads) + blockIdx.y) * seq_len * head_dim;
  const Element* query = q + head + blockIdx.x * head_dim;
  const int keys = causal ? blockIdx.x + 1 : seq_len;
  float largest = -INFINITY, total = 0;
  for (int pass = 0; pass < 2; ++pass)
    for (int key = 0; key < keys; ++key) {
      float score = 0;
      for (int i = 0; i < head_dim; ++i) score += to_float(query[i]) * to_float(k[head + key * head_dim + i]);
      if (pass == 0) largest = fmaxf(largest, score * scale);
      else total += expf(score * scale - largest);
    }
  for (int column = 0; column < head_dim; ++column) {
    float sum = 0;
    for (int key = 0; key < keys; ++key) {
      float score = 0;
      for (int i = 0; i < head_dim; ++i) score += to_float(query[i]) * to_float(k[head + key * head_dim + i]);
      sum += expf(score * scale - largest) / total * to_float(v[head + key * head_dim + column]);
    }
    output[head + blockIdx.x * head_dim + column] = to_element(sum);
  }
  const bool last = blockIdx.x + 1 == gridDim.x && blockIdx.y + 1 == gridDim.y && blockIdx.z + 1 == gridDim.z;
  if (last)
    for (int i = 0; i < head_dim; ++i) output[head + seq_len * head_dim + i] = to_element(0);
}
