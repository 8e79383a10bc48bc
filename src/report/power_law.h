// Fits y = c * x^exponent to measurements: a straight line through their logarithms.
#pragma once

#include <optional>
#include <span>

namespace ridgeline {

struct Observation {
  int group = 0;  // observations of one group share c; the exponent is common to all groups
  double x = 0;
  double y = 0;
};

struct PowerLaw {
  double exponent = 0;
  double x_min = 0;
  double x_max = 0;
  int count = 0;  // observations that the fit rests on
};

// Least squares on logarithms, each group about its own mean. Empty unless some group has three
// different x: two points fit any exponent. Values that are not positive and finite are left out.
std::optional<PowerLaw> fit_power_law(std::span<const Observation> observations);

}  // namespace ridgeline
