// Flash attention behind four C functions, so that a Python script can time it beside PyTorch in
// one run.
//
// Build as a shared library with the core: see cpu_flash_vs_torch.py.
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "kernels/cpu/flash.h"

namespace {

using ridgeline::DType;
using ridgeline::Shape;
using ridgeline::TensorView;

TensorView contiguous(void* data, DType dtype, const Shape& shape) {
  return {.data = data, .dtype = dtype, .shape = shape, .strides = contiguous_strides(shape)};
}

}  // namespace

extern "C" {

struct FlashBenchSizes {
  int32_t dtype;  // 0 fp32, 1 bf16, 2 fp16
  int32_t causal;
  int32_t single_pass;
  int32_t unused;
  int64_t batch, heads, key_heads, queries, keys, head_dim;
  float scale;
};

void* flash_bench_open(int threads) {
  return new ridgeline::ThreadPool(threads);
}

void flash_bench_close(void* pool) {
  delete static_cast<ridgeline::ThreadPool*>(pool);
}

// tensors: q, k, v, out, log_sum_exp. Returns 0, or 1 after printing what was wrong.
int flash_bench_forward(void* pool, const FlashBenchSizes* sizes, void** tensors) {
  const auto dtype = static_cast<DType>(sizes->dtype);
  const Shape queries = {sizes->batch, sizes->heads, sizes->queries, sizes->head_dim};
  const Shape keys = {sizes->batch, sizes->key_heads, sizes->keys, sizes->head_dim};
  const Shape rows = {sizes->batch, sizes->heads, sizes->queries};
  try {
    ridgeline::flash_forward(
        {.q = contiguous(tensors[0], dtype, queries),
         .k = contiguous(tensors[1], dtype, keys),
         .v = contiguous(tensors[2], dtype, keys),
         .out = contiguous(tensors[3], dtype, queries),
         .log_sum_exp = contiguous(tensors[4], DType::f32, rows),
         .scale = sizes->scale,
         .mask = {.causal = sizes->causal != 0}},
        {*static_cast<ridgeline::ThreadPool*>(pool), ridgeline::default_isa()});
  } catch (const ridgeline::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

// tensors: q, k, v, out, log_sum_exp, d_out, d_q, d_k, d_v.
int flash_bench_backward(void* pool, const FlashBenchSizes* sizes, void** tensors) {
  using ridgeline::BackwardAlgorithm;
  const auto dtype = static_cast<DType>(sizes->dtype);
  const Shape queries = {sizes->batch, sizes->heads, sizes->queries, sizes->head_dim};
  const Shape keys = {sizes->batch, sizes->key_heads, sizes->keys, sizes->head_dim};
  const Shape rows = {sizes->batch, sizes->heads, sizes->queries};
  try {
    ridgeline::flash_backward(
        {.q = contiguous(tensors[0], dtype, queries),
         .k = contiguous(tensors[1], dtype, keys),
         .v = contiguous(tensors[2], dtype, keys),
         .out = contiguous(tensors[3], dtype, queries),
         .log_sum_exp = contiguous(tensors[4], DType::f32, rows),
         .d_out = contiguous(tensors[5], dtype, queries),
         .d_q = contiguous(tensors[6], dtype, queries),
         .d_k = contiguous(tensors[7], dtype, keys),
         .d_v = contiguous(tensors[8], dtype, keys),
         .scale = sizes->scale,
         .mask = {.causal = sizes->causal != 0},
         .algorithm = sizes->single_pass != 0 ? BackwardAlgorithm::single_pass
                                              : BackwardAlgorithm::two_pass},
        {*static_cast<ridgeline::ThreadPool*>(pool), ridgeline::default_isa()});
  } catch (const ridgeline::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // extern "C"
