#include "measure/quantiles.h"

#include <gtest/gtest.h>

namespace ridgeline {
namespace {

struct Known {
  double probability;
  int degrees;
  double quantile;
};

// Values from printed tables.
TEST(Quantiles, OfStudentsTAreThoseOfTheTables) {
  for (const Known& known : {Known{0.975, 1, 12.7062},
                             {0.975, 2, 4.3027},
                             {0.995, 8, 3.3554},
                             {0.95, 9, 1.8331},
                             {0.9995, 30, 3.6460},
                             {0.5, 7, 0}})
    EXPECT_NEAR(student_t_quantile(known.probability, known.degrees), known.quantile, 1e-4)
        << known.degrees;
}

TEST(Quantiles, OfChiSquareAreThoseOfTheTables) {
  for (const Known& known : {Known{0.05, 9, 3.3251},
                             {0.05, 10, 3.9403},
                             {0.95, 1, 3.8415},
                             {0.01, 4, 0.2971},
                             {0.99, 30, 50.8922}})
    EXPECT_NEAR(chi_square_quantile(known.probability, known.degrees), known.quantile, 1e-4)
        << known.degrees;
}

}  // namespace
}  // namespace ridgeline
