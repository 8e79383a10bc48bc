// Averages v without weights: every value is wrong.
// ridgeline: grid = seq_len, heads, batch
// ridgeline: block = 1
#include "own_attention.cuh"

extern "C" __global__ void broken(const Element* q, const Element* k, const Element* v,
                                  Element* output, int batch, int heads, int seq_len, int head_dim,
                                  float scale, int causal) {
  const long long head = (blockIdx.z * static_cast<long long>(heads) + blockIdx.y) * seq_len * head_dim;
  for (int column = 0; column < head_dim; ++column) {
    float sum = 0;
    for (int key = 0; key < seq_len; ++key) sum += to_float(v[head + key * head_dim + column]);
    output[head + blockIdx.x * head_dim + column] = to_element(sum / seq_len);
  }
}
