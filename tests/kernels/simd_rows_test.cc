// Rows of the CPU's vector code: a NaN is never lost, wherever it stands and whatever its bits are.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "kernels/cpu/simd_kernels.h"

namespace ridgeline::simd_rows_test {
namespace {

// The second is what poisoned memory holds.
const std::vector<uint32_t> kNans = {0x7fc00000, 0xffffffff, 0x7fffffff, 0xffc00001};

// Calls f(simd, row, where) with rows of several lengths that hold one NaN, at every place.
template <class F>
void for_each_poisoned_row(F f) {
  for (Isa isa : supported_isas()) {
    SCOPED_TRACE(name(isa));
    for (int64_t length : {1, 3, 4, 7, 16, 31, 64, 65, 200})
      for (int64_t place = 0; place < length; ++place)
        for (uint32_t bits : kNans) {
          std::vector<float> row(static_cast<size_t>(length));
          for (size_t i = 0; i < row.size(); ++i)
            row[i] = static_cast<float>(std::sin(static_cast<double>(i)));
          row[static_cast<size_t>(place)] = std::bit_cast<float>(bits);
          f(simd_kernels(isa), row, static_cast<size_t>(place));
          if (::testing::Test::HasFatalFailure()) return;
        }
  }
}

void expect_all_nan(const std::vector<float>& values, size_t place) {
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_TRUE(std::isnan(values[i]))
        << values[i] << " at " << i << " of " << values.size() << ", NaN at " << place;
}

TEST(SimdRows, OneNanMakesEveryWeightOfASoftmaxNan) {
  for_each_poisoned_row([](const SimdKernels& simd, const std::vector<float>& x, size_t place) {
    const auto count = static_cast<int64_t>(x.size());
    std::vector<float> y(x.size());
    simd.softmax(x.data(), y.data(), count);
    expect_all_nan(y, place);
    simd.log_softmax(x.data(), y.data(), count);
    expect_all_nan(y, place);
  });
}

TEST(SimdRows, GradientsOfSoftmaxKeepNan) {
  for_each_poisoned_row([](const SimdKernels& simd, const std::vector<float>& row, size_t place) {
    const auto count = static_cast<int64_t>(row.size());
    const std::vector<float> finite(row.size(), -0.5f);
    std::vector<float> d_x(row.size());
    for (auto gradient : {simd.softmax_gradient, simd.log_softmax_gradient}) {
      gradient(finite.data(), row.data(), d_x.data(), count);
      expect_all_nan(d_x, place);
      gradient(row.data(), finite.data(), d_x.data(), count);
      ASSERT_TRUE(std::isnan(d_x[place])) << d_x[place] << " at " << place << " of " << count;
    }
  });
}

TEST(SimdRows, FoldsKeepNan) {
  for_each_poisoned_row([](const SimdKernels& simd, const std::vector<float>& x, size_t place) {
    for (auto fold : {simd.max, simd.sum, simd.sum_of_squares})
      ASSERT_TRUE(std::isnan(fold(x.data(), static_cast<int64_t>(x.size()))))
          << "NaN at " << place << " of " << x.size();
  });
}

TEST(SimdRows, NarrowingKeepsNan) {
  for_each_poisoned_row([](const SimdKernels& simd, const std::vector<float>& x, size_t place) {
    const auto count = static_cast<int64_t>(x.size());
    std::vector<uint16_t> narrow(x.size());
    std::vector<float> wide(x.size());
    for (DType dtype : {DType::bf16, DType::f16}) {
      simd.store(dtype, x.data(), narrow.data(), count);
      simd.load(dtype, narrow.data(), wide.data(), count);
      for (size_t i = 0; i < wide.size(); ++i)
        ASSERT_EQ(std::isnan(wide[i]), i == place)
            << info(dtype).name << ": " << i << " of " << count;
    }
  });
}

TEST(SimdRows, MaximumKeepsTheNanOfEitherOperand) {
  for_each_poisoned_row([](const SimdKernels& simd, const std::vector<float>& row, size_t place) {
    const std::vector<float> finite(row.size(), 0.25f);
    std::vector<float> out(row.size());
    for (const auto& [left, right] : {std::pair{&row, &finite}, std::pair{&finite, &row}}) {
      const PointwiseOperand operands[] = {{left->data(), false}, {right->data(), false}};
      simd.pointwise(Op::maximum, operands, out.data(), static_cast<int64_t>(row.size()));
      for (size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(std::isnan(out[i]), i == place) << i << " of " << out.size();
    }
  });
}

}  // namespace
}  // namespace ridgeline::simd_rows_test
