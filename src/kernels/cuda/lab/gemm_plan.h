// Plans the GEMM lab's own kernels, the roofline's streams and the kernel that holds a stream for
// the busy clock. None of them is a node of a graph.
#pragma once

#include "kernels/cuda/launch.h"

namespace ridgeline {

enum class CudaGemm { naive, tiled };

// out[m, n] = a[m, k] b[k, n], contiguous, one dtype; n = 1 has separate kernels. Throws an
// unsupported error for tf32, which needs tensor cores.
CudaLaunch plan_gemm(CudaGemm which, const TensorView& a, const TensorView& b,
                     const TensorView& out, const CudaFacts& device);

// to = a, or to = a + 3 b with `b`, `passes` times; contiguous fp32, 16-byte addresses, counts in
// multiples of 4.
CudaLaunch plan_stream(const TensorView& a, const TensorView* b, const TensorView& to,
                       int64_t passes = 1);

// Runs one thread for that long, which blocks the stream.
CudaLaunch plan_hold(double milliseconds);

// For tests that compile them.
std::vector<CudaKernel> gemm_samples();

}  // namespace ridgeline
