// The samples of two sides as kernel densities, which show how far apart they are and how many
// modes each has.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/page/document.h"

namespace ridgeline {

// Evaluates both densities, each with an area of 1, at equal distances over the joint range. Has no
// series if a side has fewer than three samples or no spread.
Chart density_chart(const std::string& title, std::span<const double> base_ms,
                    std::span<const double> new_ms);

// Returns the density at each value of `at`: a Gaussian kernel with Silverman's bandwidth.
std::vector<double> densities_at(std::span<const double> samples, std::span<const double> at);

}  // namespace ridgeline
