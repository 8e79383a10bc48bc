// Axes of charts: their range, and ticks at round numbers in common units.
#pragma once

#include <span>
#include <string>

#include "report/page/document.h"

namespace ridgeline {

// What a number on an axis or in a cell measures.
enum class Quantity {
  milliseconds,
  bytes,
  length,
  ratio,
  flops_per_s,
  intensity,
  bytes_per_s,
  count
};

// "1.25 ms", "3.00 GiB", "4096", "2.31x", "1.20 TFLOP/s", "0.25", "4.50 GB/s", "417".
std::string quantity_text(Quantity quantity, double value);

// Covers the values that are positive and finite. Lengths are their own ticks if there are few.
Axis log_axis(std::string label, Quantity quantity, std::span<const double> values,
              Better better = Better::neither);

// Covers zero to the largest value.
Axis linear_axis(std::string label, Quantity quantity, std::span<const double> values,
                 Better better = Better::neither);

}  // namespace ridgeline
