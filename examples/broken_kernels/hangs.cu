// Waits forever for a value that is never written.
// ridgeline: grid = seq_len, heads, batch
// ridgeline: block = 1
#include "own_attention.cuh"

extern "C" __global__ void broken(const Element* q, const Element* k, const Element* v,
                                  Element* output, int batch, int heads, int seq_len, int head_dim,
                                  float scale, int causal) {
  volatile int* flag = reinterpret_cast<volatile int*>(output);
  while (*flag != 12345) {
  }
}
