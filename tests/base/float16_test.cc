// Rounding of operands to tf32.
#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ridgeline {
namespace {

TEST(Tf32, KeepsTenBitsOfMantissa) {
  EXPECT_EQ(float_to_tf32(1.0f), 1.0f);
  EXPECT_EQ(float_to_tf32(1.0f + 0x1p-10f), 1.0f + 0x1p-10f);
  EXPECT_EQ(float_to_tf32(1.0f + 0x1p-12f), 1.0f);
  EXPECT_EQ(float_to_tf32(-1.0f - 0x1.8p-11f), -1.0f - 0x1p-10f);
}

TEST(Tf32, TiesGoToEven) {
  EXPECT_EQ(float_to_tf32(1.0f + 0x1p-11f), 1.0f);
  EXPECT_EQ(float_to_tf32(1.0f + 0x3p-11f), 1.0f + 0x2p-10f);
}

TEST(Tf32, HasTheRangeOfFp32) {
  EXPECT_EQ(float_to_tf32(0x1p120f), 0x1p120f);
  EXPECT_EQ(float_to_tf32(std::numeric_limits<float>::infinity()),
            std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(float_to_tf32(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace ridgeline
