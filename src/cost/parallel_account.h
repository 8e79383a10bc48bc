// Analytic estimates for training on several ranks: memory per rank, the ranks that a model needs,
// and the bandwidth and batch from which computation hides communication.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cost/communication.h"
#include "cost/parallel_strategy.h"

namespace ridgeline {

// What the estimates need of a model: a stack of blocks, and what its training keeps and computes.
struct TrainedModel {
  std::string name;
  int64_t parameters = 0;
  int64_t blocks = 1;
  int64_t block_parameters = 0;
  double forward_flops_per_token = 0;  // backward is twice that
  double saved_bytes_per_token = 0;    // activations kept for backward
  double compute_bytes = 4;  // per element of activations, gathered weights and gradients sent
};

// The example of the assignment: every block is two linear layers, from d_model to d_ff and back,
// that save their inputs. A multiply-add counts as two FLOPs.
struct LinearBlocks {
  int64_t d_model = 16384, d_ff = 53248, blocks = 126;
};
TrainedModel linear_block_model(const LinearBlocks& sizes, double compute_bytes);

// Bytes of one rank. Master weights, accumulated gradients and both moments of Adam are fp32.
struct RankMemory {
  double weights = 0, gradients = 0, moments = 0;
  // Of weights in 16 bits; with fsdp, the gathered weights of two units and the gradient of one.
  double copies = 0;
  double activations = 0;

  double state() const { return weights + gradients + moments; }
  double total() const { return state() + copies + activations; }
};
// `tokens_at_a_time` are those of one rank and one micro-batch. With several micro-batches a rank
// accumulates whole gradients, with fsdp as well, which scatters them in the last micro-batch.
RankMemory rank_memory(const TrainedModel& model, ParallelStrategy strategy, int64_t ranks,
                       double tokens_at_a_time, int64_t micro_batches = 1);

// Bytes per rank by the assignment's formula: the state and the fraction `sharded_activations` of
// the activations of the whole batch are sharded, the other activations are on every rank.
double spread_bytes(const TrainedModel& model, int64_t ranks, double tokens,
                    double sharded_activations);

// The fewest ranks of which each needs at most `memory_bytes`; empty if `most_ranks` are too few.
std::optional<int64_t> fewest_ranks(double memory_bytes, int64_t most_ranks,
                                    const std::function<double(int64_t ranks)>& bytes_of_rank);

// Rates of one rank and its link.
struct RankRates {
  double flops_per_s = 1;
  double bytes_per_s = 1;
};

// Bytes that a rank sends per step, by bus_factor(), and the part of them that can be hidden: a
// sharded optimizer gathers parameters after its update, when no computation is left.
double sent_per_step(const TrainedModel& model, ParallelStrategy strategy, int ranks,
                     int64_t micro_batches = 1);
double hidden_per_step(const TrainedModel& model, ParallelStrategy strategy, int ranks,
                       int64_t micro_batches = 1);
// Computation that can hide communication: backward, with fsdp forward as well; 0 for strategies
// that communicate after backward.
double hiding_seconds(const TrainedModel& model, ParallelStrategy strategy, double tokens_per_rank,
                      double flops_per_s);
// The bandwidth, or the tokens per rank, from which hidden_per_step() of one micro-batch takes no
// longer than hiding_seconds(). Neglects latency and the exposed last bucket. Empty: the strategy
// hides nothing.
std::optional<double> hiding_bandwidth(const TrainedModel& model, ParallelStrategy strategy,
                                       int ranks, double tokens_per_rank, double flops_per_s);
std::optional<double> hiding_tokens(const TrainedModel& model, ParallelStrategy strategy, int ranks,
                                    const RankRates& rates);

// A mesh of fsdp ranks x tensor-parallel ranks and the links along each axis, as in the
// assignment's forward pass: weights are gathered along the first axis, activations of every
// feed-forward layer along the second.
struct Mesh {
  int fsdp = 16, tensor = 4;
  double fsdp_links = 2, tensor_links = 1;
};
struct MeshBound {
  double tokens = 0;           // smallest whole batch that hides the gathers of weights
  double tokens_per_rank = 0;  // tokens / (fsdp * tensor)
  bool hides_tensor = false;   // whether the gathers of activations are hidden, at any batch
  double widest_tensor = 0;    // most tensor-parallel ranks with which they are
};
MeshBound mesh_bound(const Mesh& mesh, int64_t d_ff, double compute_bytes, const RankRates& rates);

}  // namespace ridgeline
