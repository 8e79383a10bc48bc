// The calculator for training on several ranks: memory, devices, bandwidths and batches by
// arithmetic, step times by simulation. Nothing is run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/parallel_account.h"
#include "cost/parallel_step.h"
#include "models/transformer_lm.h"
#include "report/terminal/table.h"
#include "runtime/device.h"

namespace ridgeline {

// What the calculator needs of a model, in the precisions that it compares.
struct PredictedModel {
  TrainedModel in_fp32, in_bf16;
  // Elements of parameters in the order of backward: by tensor, and by unit of fsdp.
  std::vector<double> tensors, units;
  int64_t d_ff = 0;
  std::string saved_by;  // what `saved_bytes_per_token` counts, for messages
};
// The assignment's example, called xxl: blocks of two linear layers.
inline constexpr const char* kLinearBlocksSize = "xxl";
PredictedModel predicted_model(const LinearBlocks& sizes);
// A transformer of this batch and context, with what our compiled plan saves for backward.
PredictedModel predicted_model(const TransformerConfig& config, Device& device);

// Elements of parameter tensors, and of the units of fsdp, in the order in which backward finishes
// them. Each layer is a unit, and so are the parameters before and after the layers.
std::vector<double> tensors_in_backward(const TransformerConfig& config);
std::vector<double> units_in_backward(const TransformerConfig& config);

// A device by its data sheet, with the share of its peak that a training step reaches.
struct PaperDevice {
  std::string name;
  double peak_flops_per_s = 0;
  double utilisation = 0.5;
  double memory_bytes = 0;
  double memory_bytes_per_s = 0;
  std::string memory_source = {}, bandwidth_source = {};  // for messages

  double flops_per_s() const { return peak_flops_per_s * utilisation; }
};

struct PredictOptions {
  bool in_16_bits = true;
  int64_t batch_size = 4, context_length = 512;  // per rank and step
  int64_t micro_batches = 1;
  std::vector<int64_t> ranks = {8};
  std::vector<ParallelStrategy> strategies = {};
  Network network = {};
  PaperDevice device = {};
  std::optional<double> bucket_bytes = {};  // empty: best_bucket_bytes()
  std::optional<Mesh> mesh = {};

  double tokens() const { return static_cast<double>(batch_size * context_length); }
  double tokens_at_a_time() const { return tokens() / static_cast<double>(micro_batches); }
};

class Calculator {
 public:
  Calculator(PredictedModel model, PredictOptions options);

  Table memory_by_part() const;      // on one device, in fp32 and bf16
  Table memory_by_strategy() const;  // per rank, and the fewest ranks that fit
  Table hiding() const;              // the bandwidth and the batch that hide communication
  Table steps_by_strategy() const;   // over 2 ... 4096 ranks, with the fastest algorithm
  Table steps_by_algorithm() const;  // of `bucketed`, or of the first strategy without it
  std::vector<std::string> account_notes() const;
  std::vector<std::string> simulation_notes() const;
  // Every strategy, algorithm and power of two of ranks.
  Table csv() const;

  StepTimes times() const;
  PredictedStep step(ParallelStrategy strategy, CollectiveAlgorithm algorithm, int ranks) const;
  double bucket_bytes(int ranks, CollectiveAlgorithm algorithm) const;

 private:
  const TrainedModel& chosen() const {
    return options_.in_16_bits ? model_.in_bf16 : model_.in_fp32;
  }
  RankMemory memory_of_one(const TrainedModel& model) const;  // one rank with the whole batch
  RankMemory memory_of_rank(ParallelStrategy strategy, int64_t ranks) const;
  ParallelStrategy strategy_of_algorithms() const;
  CollectiveAlgorithm fastest(ParallelStrategy strategy, int ranks) const;
  // Every number of ranks within a node, then those that fill nodes, 2 ... 4096.
  std::vector<int> all_ranks() const;
  // The fewest ranks from which on `is_so` always holds; empty if it does not hold at the end.
  std::optional<int> ranks_from(const std::function<bool(int ranks)>& is_so) const;

  PredictedModel model_;
  PredictOptions options_;
};

}  // namespace ridgeline
