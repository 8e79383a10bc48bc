// The functions that pointwise expressions name, in fp32: those of pointwise.cu and of generated kernels.
#pragma once

namespace ridgeline {

__device__ __forceinline__ float exponential(float x) {
  return expf(x);
}
__device__ __forceinline__ float logarithm(float x) {
  return logf(x);
}
__device__ __forceinline__ float square_root(float x) {
  return sqrtf(x);
}
__device__ __forceinline__ float inverse_root(float x) {
  return rsqrtf(x);
}
__device__ __forceinline__ float sine(float x) {
  return sinf(x);
}
__device__ __forceinline__ float cosine(float x) {
  return cosf(x);
}
__device__ __forceinline__ float hyperbolic_tangent(float x) {
  return tanhf(x);
}
__device__ __forceinline__ float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}
// Where the sigmoid is 0, x may be -infinity: the product is 0 all the same.
__device__ __forceinline__ float silu(float x) {
  const float s = sigmoid(x);
  return s == 0.0f ? 0.0f : x * s;
}
__device__ __forceinline__ float silu_gradient(float x, float d_y) {
  const float s = sigmoid(x);
  return d_y * (silu(x) * (1.0f - s) + s);
}

}  // namespace ridgeline
