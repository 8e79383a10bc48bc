#include "report/power_law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ridgeline {
namespace {

TEST(PowerLaw, RecoversTheExponentAcrossGroupsWithDifferentConstants) {
  std::vector<Observation> points;
  for (const double x : {256.0, 1024.0, 4096.0}) {
    points.push_back({0, x, 1e-6 * std::pow(x, 1.7)});
    points.push_back({1, 2 * x, 5e-3 * std::pow(2 * x, 1.7)});
  }
  const auto law = fit_power_law(points);
  ASSERT_TRUE(law);
  EXPECT_NEAR(law->exponent, 1.7, 1e-12);
  EXPECT_NEAR(law->x_min, 256, 1e-9);
  EXPECT_NEAR(law->x_max, 8192, 1e-9);
  EXPECT_EQ(law->count, 6);
}

TEST(PowerLaw, TwoPointsFitAnythingAndSoProveNothing) {
  EXPECT_FALSE(fit_power_law(std::vector<Observation>{{0, 1, 1}, {0, 2, 4}, {0, 2, 5}}));
  EXPECT_FALSE(fit_power_law({}));
}

TEST(PowerLaw, LeavesOutWhatHasNoLogarithm) {
  const auto law = fit_power_law(std::vector<Observation>{
      {0, 1, 1}, {0, 2, 4}, {0, 4, 16}, {0, 8, 0}, {0, 16, NAN}, {0, 0, 3}});
  ASSERT_TRUE(law);
  EXPECT_NEAR(law->exponent, 2, 1e-12);
}

}  // namespace
}  // namespace ridgeline
