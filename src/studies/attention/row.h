// One row of the attention study: build, run, verify, measure, record.
#pragma once

#include <optional>

#include "cost/cost.h"
#include "measure/record.h"
#include "runtime/device.h"
#include "studies/attention/workload.h"
#include "studies/planned_rows.h"
#include "studies/row.h"

namespace ridgeline {

struct AttentionStudyOptions {
  RowOptions row = {};
  bool try_beyond_budget = true;  // false: a predicted peak above the budget is OOM, untried
};

// FLOPs by the usual convention, and the exact multiply-adds and bytes of forward and backward.
CostFacts attention_cost(const AttentionConfig& config, const Cost& forward, const Cost& backward);
// The same for all nodes of an attention_training_graph.
CostFacts attention_cost(const AttentionConfig& config, const Graph& graph);

class AttentionRunner {
 public:
  AttentionRunner(Device& device, AttentionStudyOptions options);

  // The row without results: its identity and predictions. `blank` holds the facts that all rows
  // share (machine, build). Throws a usage error for sizes that are too large to count.
  Record describe(const AttentionWorkload& workload, const Record& blank);
  // Fills in the results of `described`. Out of memory, what the device cannot do, wrong values and
  // impossible speeds are statuses of the record, not errors. Returns nullopt if interrupted.
  std::optional<Record> run(const AttentionWorkload& workload, Record described);

 private:
  Device& device_;
  AttentionStudyOptions options_;
  PlannedRows planned_;
};

// Marks a row invalid if its multiply-adds took less time than the speed of light allows.
void check_speed(Record& record, const Device& device, std::string_view dtype);

// Explains the plan of a compiled workload: recognised patterns, kernels, memory, refusals.
std::string explain_plan(const AttentionWorkload& workload, Device& device);

}  // namespace ridgeline
