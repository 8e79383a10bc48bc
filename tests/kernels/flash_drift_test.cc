#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cpu/flash.h"

namespace ridgeline::flash_drift_test {
namespace {

// Equal scores give weights of exactly 1, so the log-sum-exp of S keys is log S. An error in each
// of many tiles, however small, shows here.
TEST(FlashDrift, HundredsOfTilesAddNoErrorOfTheirOwn) {
  constexpr int64_t kKeys = 16384, kQueries = 64, kWidth = 16;
  std::vector<float> q(kQueries * kWidth, 0.0f), k(kKeys * kWidth, 1.0f), v(kKeys * kWidth, 0.5f);
  std::vector<float> out(q.size()), lse(kQueries);
  const auto view = [](std::vector<float>& data, int64_t rows) {
    const Shape shape{1, 1, rows, kWidth};
    return TensorView{data.data(), DType::f32, shape, contiguous_strides(shape)};
  };
  ThreadPool pool(1);
  for (Isa isa : supported_isas()) {
    flash_forward(
        {.q = view(q, kQueries),
         .k = view(k, kKeys),
         .v = view(v, kKeys),
         .out = view(out, kQueries),
         .log_sum_exp = {lse.data(), DType::f32, {1, 1, kQueries}, {kQueries, kQueries, 1}}},
        {.pool = pool, .isa = isa});
    for (float value : lse) EXPECT_NEAR(value, std::log(16384.0), 1e-6) << name(isa);
    for (float value : out) EXPECT_NEAR(value, 0.5, 1e-6) << name(isa);
  }
}

}  // namespace
}  // namespace ridgeline::flash_drift_test
