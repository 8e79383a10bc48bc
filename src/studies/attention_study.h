// One row of the attention study: build, run, verify, measure, record.
#pragma once

#include <functional>
#include <optional>

#include "measure/protocol.h"
#include "measure/record.h"
#include "runtime/cpu_device.h"
#include "studies/attention_workload.h"

namespace ridgeline {

struct AttentionStudyOptions {
  Protocol protocol;
  uint64_t seed = 42;
  bool verify = true;
  bool try_beyond_budget =
      true;  // false: a row whose predicted peak is above the budget is OOM untried
  std::function<bool()> interrupted = {};  // asked between iterations
};

// The row without results: what identifies it, and what was predicted. `blank` brings the facts
// that all rows share (machine, build). Throws a usage error for sizes that cannot be counted.
Record describe_attention(const AttentionWorkload& workload, const CpuDevice& device,
                          const AttentionStudyOptions& options, const Record& blank);

// Fills in the results of `described`. Out of memory, wrong values and impossible speeds are
// statuses of the record, not errors. Empty when interrupted.
std::optional<Record> run_attention(const AttentionWorkload& workload, CpuDevice& device,
                                    const AttentionStudyOptions& options, Record described);

}  // namespace ridgeline
