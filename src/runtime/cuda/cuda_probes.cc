// The products of the GEMM lab and the streams of the roofline on a GPU.
#include "base/error.h"
#include "kernels/cuda/lab/gemm_plan.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline {
namespace {

// Passes per launch: a single pass over a cache is shorter than a launch.
constexpr int64_t kCachedPasses = 50;

double bytes_of(const StreamArrays& arrays) {
  const Bytes each = byte_size({arrays.a.dtype, arrays.a.shape});
  return (arrays.b ? 3 : 2) * static_cast<double>(each.count);
}

}  // namespace

std::function<void()> CudaDevice::prepare_gemm(GemmRung rung, const GemmOperands& operands) {
  if (rung == GemmRung::library) return Device::prepare_gemm(rung, operands);
  if (!has_gemm(rung))
    throw Error(ErrorKind::unsupported, "simd is a rung of the CPU's ladder",
                "measure naive, tiled and library on a GPU");
  const CudaLaunch planned = plan_gemm(rung == GemmRung::naive ? CudaGemm::naive : CudaGemm::tiled,
                                       operands.a, operands.b, operands.out, facts_);
  return [this, planned] { launch(planned); };
}

std::vector<StreamProbe> CudaDevice::stream_probes() {
  const auto by_kernel = [this](const StreamArrays& arrays) {
    const int64_t passes = arrays.in_cache ? kCachedPasses : 1;
    const CudaLaunch planned =
        plan_stream(arrays.a, arrays.b ? &*arrays.b : nullptr, arrays.to, passes);
    return RateProbe{.start = [this, planned] { launch(planned); },
                     .bytes = static_cast<double>(passes) * bytes_of(arrays)};
  };
  const auto by_driver = [this](const StreamArrays& arrays) {
    return RateProbe{.start = [this, arrays] { copy(arrays.a, arrays.to); },
                     .bytes = bytes_of(arrays)};
  };
  return {{.suffix = "", .copies_only = false, .prepare = by_kernel},
          {.suffix = "-driver", .copies_only = true, .prepare = by_driver}};
}

}  // namespace ridgeline
