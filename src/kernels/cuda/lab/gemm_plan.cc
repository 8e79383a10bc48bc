#include "kernels/cuda/lab/gemm_plan.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/planning.h"

namespace ridgeline {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kNaiveSide = 16;
constexpr int64_t kStreamPacks = 4;

// The widest access that can read every row of both operands.
int64_t pack_of(const TensorView& a, const TensorView& b) {
  PackWidth pack(a.dtype);
  for (const TensorView* operand : {&a, &b}) {
    const bool vector = operand->shape[1] == 1;
    pack.require_multiple(vector ? operand->shape[0] : operand->shape[1]);
    pack.require_address(operand->data, operand->dtype);
  }
  return pack.get();
}

// Small problems get small tiles, so that every multiprocessor has one.
int64_t tile_of(int64_t m, int64_t n, const CudaFacts& device) {
  constexpr int64_t kLarge = 128, kSmall = 64;
  return divide_up(m, kLarge) * divide_up(n, kLarge) >= device.multiprocessors ? kLarge : kSmall;
}

}  // namespace

CudaLaunch plan_gemm(CudaGemm which, const TensorView& a, const TensorView& b,
                     const TensorView& out, const CudaFacts& device) {
  if (out.dtype == DType::tf32)
    throw Error(ErrorKind::unsupported, "tf32 needs tensor cores, which only the library uses",
                "measure `library` in tf32, or fp32");
  GemmParams params{.a = a.data,
                    .b = b.data,
                    .out = out.data,
                    .m = a.shape[0],
                    .n = b.shape[1],
                    .k = a.shape[1],
                    .blocks_across = 1};
  const bool vector = params.n == 1, naive = which == CudaGemm::naive;
  const std::string entry = std::string(vector ? "gemv" : "gemm") + (naive ? "_naive" : "_tiled");
  CudaConstants constants = {{"TYPE", element_name(out.dtype)}};
  const auto constant = [&](const char* name, int64_t value) {
    constants.emplace_back(name, std::to_string(value));
  };
  int64_t blocks = 0;
  if (vector) {
    constexpr int64_t kWarp = 32;
    constant("THREADS", kThreads);
    if (!naive) constant("PACK", pack_of(a, b));
    blocks = divide_up(params.m, naive ? kThreads : kThreads / kWarp);
  } else {
    const int64_t side = naive ? kNaiveSide : tile_of(params.m, params.n, device);
    if (!naive) {
      constant("TILE", side);
      constant("PACK", pack_of(a, b));
    }
    params.blocks_across = divide_up(params.n, side);
    blocks = divide_up(params.m, side) * params.blocks_across;
  }
  if (blocks > INT32_MAX)
    throw Error(ErrorKind::unsupported, "the result has more tiles than a grid has blocks",
                "choose smaller sizes");
  return launch_of(entry, blocks, kThreads, std::move(constants), params);
}

CudaLaunch plan_stream(const TensorView& a, const TensorView* b, const TensorView& to,
                       int64_t passes) {
  const int64_t packs = element_count(a.shape) / 4;
  return launch_of("stream_probe", divide_up(packs, kThreads * kStreamPacks), kThreads,
                   {{"TRIAD", b == nullptr ? "0" : "1"},
                    {"THREADS", std::to_string(kThreads)},
                    {"PACKS", std::to_string(kStreamPacks)}},
                   StreamParams{.a = a.data,
                                .b = b == nullptr ? nullptr : b->data,
                                .to = to.data,
                                .count = packs,
                                .passes = static_cast<int>(passes)});
}

CudaLaunch plan_hold(double milliseconds) {
  return launch_of("hold", 1, 1, {},
                   HoldParams{.nanoseconds = static_cast<unsigned long long>(1e6 * milliseconds)});
}

std::vector<CudaKernel> gemm_samples() {
  std::vector<CudaKernel> kernels;
  const auto add = [&](const CudaLaunch& launch) {
    if (std::find(kernels.begin(), kernels.end(), launch.kernel) == kernels.end())
      kernels.push_back(launch.kernel);
  };
  const auto matrix = [](DType dtype, int64_t rows, int64_t columns) {
    return TensorView{reinterpret_cast<void*>(0x1000), dtype, {rows, columns}, {columns, 1}};
  };
  const CudaFacts facts{.multiprocessors = 132};
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (CudaGemm which : {CudaGemm::naive, CudaGemm::tiled})
      for (int64_t size : {63, 100, 512, 4096})
        for (int64_t n : {int64_t{1}, size})
          add(plan_gemm(which, matrix(dtype, size, size), matrix(dtype, size, n),
                        matrix(dtype, size, n), facts));
  const TensorView stream = matrix(DType::f32, 1 << 20, 4);
  add(plan_stream(stream, nullptr, stream));
  add(plan_stream(stream, &stream, stream));
  add(plan_hold(1));
  return kernels;
}

}  // namespace ridgeline
