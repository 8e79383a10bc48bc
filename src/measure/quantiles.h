// Quantiles of the distributions that intervals of a few runs need.
#pragma once

namespace ridgeline {

// Below which a variable of Student's t distribution lies with that probability; one degree of
// freedom or more.
double student_t_quantile(double probability, int degrees);

// The same for chi-square.
double chi_square_quantile(double probability, int degrees);

}  // namespace ridgeline
