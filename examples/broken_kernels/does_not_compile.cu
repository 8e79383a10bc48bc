// Uses an undeclared name: the log names line 9.
// ridgeline: grid = seq_len, heads, batch
// ridgeline: block = 1
#include "own_attention.cuh"

extern "C" __global__ void broken(const Element* q, const Element* k, const Element* v,
                                  Element* output, int batch, int heads, int seq_len, int head_dim,
                                  float scale, int causal) {
  output[0] = no_such_name;
}
