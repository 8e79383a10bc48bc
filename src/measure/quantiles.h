// Quantiles of Student's t and chi-square, for confidence intervals from a few runs.
#pragma once

namespace ridgeline {

// Both need at least one degree of freedom.
double student_t_quantile(double probability, int degrees);
double chi_square_quantile(double probability, int degrees);

}  // namespace ridgeline
