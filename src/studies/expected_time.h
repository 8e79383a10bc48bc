// Estimates how long a row takes, from what is known before it runs: FLOPs, bytes and the protocol.
//
// Rough on purpose: progress lines need only the ratios between the rows of a sweep, and correct
// the common factor as rows finish (report/terminal/time_left.h).
#pragma once

#include <string_view>

#include "measure/protocol.h"
#include "measure/record.h"
#include "models/attention.h"
#include "runtime/device.h"

namespace ridgeline {

struct ExpectedWork {
  double flops = 0;
  double bytes = 0;
  std::string_view dtype = "fp32";
  double slowdown = 1;  // above 1 for implementations that are slow by design
};

// Seconds to run the work once.
double expected_once_s(const ExpectedWork& work, const Device& device, const MachineFacts& machine);
// Seconds for warm-ups and samples that take `iteration_s` each.
double expected_samples_s(double iteration_s, const Protocol& protocol);

// Of attention forward and backward, per score and element of head_dim: 4 and 2.5 times as many.
inline constexpr double kFlopsOfBothPasses = 14;

struct ExpectedAttention {
  Protocol protocol;
  bool verify = true;
  bool backward = true;
  int calls_per_sample = 1;
};
// Seconds for a row of the attention or kernel study; 0 if the row will not be tried.
double expected_attention_s(const AttentionConfig& config, const Record& described,
                            const Device& device, const ExpectedAttention& how);

}  // namespace ridgeline
