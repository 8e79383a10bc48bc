// How long a row may take, from what is known before it runs: FLOPs, bytes and the protocol.
//
// Rough on purpose. Progress lines need the rows of a sweep in proportion to each other, and they
// correct the common factor as rows end (report/terminal/time_left.h).
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
  double slowdown = 1;  // of implementations that are meant to be slow
};

// Of running the work once.
double expected_once_s(const ExpectedWork& work, const Device& device, const MachineFacts& machine);
// Of warm-ups and samples, each of which takes `iteration_s`.
double expected_samples_s(double iteration_s, const Protocol& protocol);

struct ExpectedAttention {
  Protocol protocol;
  bool verify = true;
  bool backward = true;
  int calls_per_sample = 1;
};
// Of a row of the attention or kernel study; one that will not be tried takes nothing.
double expected_attention_s(const AttentionConfig& config, const Record& described,
                            const Device& device, const ExpectedAttention& how);

}  // namespace ridgeline
