// The samples of two sides as smooth densities over time: how far they lie apart, and how many
// modes each has.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/page/document.h"

namespace ridgeline {

// At equal distances over the range of both, each side with an area of 1; empty where a side has
// fewer than three samples, or all samples are one.
Chart density_chart(const std::string& title, std::span<const double> base_ms,
                    std::span<const double> new_ms);

// A Gaussian kernel over the samples, its width by Silverman's rule.
std::vector<double> densities_at(std::span<const double> samples, std::span<const double> at);

}  // namespace ridgeline
