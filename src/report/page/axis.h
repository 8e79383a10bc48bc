// Axes of charts: their range, and ticks with round numbers in the unit that people use.
#pragma once

#include <span>
#include <string>

#include "report/page/document.h"

namespace ridgeline {

// What a number on an axis, or in a cell, is.
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

// Over the values that are positive and finite. Ticks of lengths are the lengths themselves while
// there are few of them.
Axis log_axis(std::string label, Quantity quantity, std::span<const double> values,
              Better better = Better::neither);

// From zero to the largest value.
Axis linear_axis(std::string label, Quantity quantity, std::span<const double> values,
                 Better better = Better::neither);

}  // namespace ridgeline
