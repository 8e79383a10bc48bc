// The accounts of training on several ranks, on paper: what a rank holds, how many ranks a model
// needs, and the bandwidth and batch from which computation hides communication.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cost/communication.h"
#include "cost/parallel_strategy.h"

namespace ridgeline {

// A model as the accounts need it: a stack of blocks, and what its training keeps and computes.
struct TrainedModel {
  std::string name;
  int64_t parameters = 0;
  int64_t blocks = 1;
  int64_t block_parameters = 0;
  double forward_flops_per_token = 0;  // backward is twice that
  double saved_bytes_per_token = 0;    // activations that are kept for backward
  double compute_bytes = 4;  // per element of activations, gathered weights, gradients sent
};

// The example of the assignment: every block is two linear layers, from d_model to d_ff and back,
// that save their inputs. A multiplication and an addition are two FLOPs.
struct LinearBlocks {
  int64_t d_model = 16384, d_ff = 53248, blocks = 126;
};
TrainedModel linear_block_model(const LinearBlocks& sizes, double compute_bytes);

// Of one rank, in bytes. Master weights, accumulated gradients and both moments of Adam are fp32.
struct RankMemory {
  double weights = 0, gradients = 0, moments = 0;
  double copies =
      0;  // of weights in 16 bits, and what is gathered or not yet scattered of two units
  double activations = 0;

  double state() const { return weights + gradients + moments; }
  double total() const { return state() + copies + activations; }
};
// With so many tokens of its own on each rank. Micro-batches add up whole gradients, also of fsdp,
// which scatters them in the last one.
RankMemory rank_memory(const TrainedModel& model, ParallelStrategy strategy, int64_t ranks,
                       double tokens_at_a_time, int64_t micro_batches = 1);

// The account of the assignment for shards: state and a part of the activations of the whole batch
// are spread over all ranks, the rest of the activations is on each.
double spread_bytes(const TrainedModel& model, int64_t ranks, double tokens,
                    double sharded_activations);

// The fewest ranks with which each needs no more than `memory_bytes`; empty: none has.
std::optional<int64_t> fewest_ranks(double memory_bytes, int64_t most_ranks,
                                    const std::function<double(int64_t ranks)>& bytes_of_rank);

// Ranks that compute at a rate and send over one link.
struct RankRates {
  double flops_per_s = 1;
  double bytes_per_s = 1;
};

// Bytes that a rank sends in a step, by bus_factor(), and those of them that can be hidden: a
// sharded optimizer gathers parameters after its update, when nothing is computed.
double sent_per_step(const TrainedModel& model, ParallelStrategy strategy, int ranks,
                     int64_t micro_batches = 1);
double hidden_per_step(const TrainedModel& model, ParallelStrategy strategy, int ranks,
                       int64_t micro_batches = 1);
// The time in which a strategy can hide what it sends: backward, of fsdp forward as well; 0 of
// those that communicate after backward.
double hiding_seconds(const TrainedModel& model, ParallelStrategy strategy, double tokens_per_rank,
                      double flops_per_s);
// The bandwidth at which hidden_per_step() of one micro-batch takes no longer than so many tokens,
// and the tokens at a bandwidth. Latency is not counted, nor that the last bucket is exposed.
// Empty: never.
std::optional<double> hiding_bandwidth(const TrainedModel& model, ParallelStrategy strategy,
                                       int ranks, double tokens_per_rank, double flops_per_s);
std::optional<double> hiding_tokens(const TrainedModel& model, ParallelStrategy strategy, int ranks,
                                    const RankRates& rates);

// A mesh of fsdp ranks times tensor-parallel ranks, with so many links along each axis, as in the
// account of the assignment's forward pass: weights are gathered along one axis, activations of
// every feed-forward layer along the other.
struct Mesh {
  int fsdp = 16, tensor = 4;
  double fsdp_links = 2, tensor_links = 1;
};
struct MeshBound {
  double tokens = 0;           // of the whole batch, from which computation hides the gathers
  double tokens_per_rank = 0;  // that, over all ranks of the mesh
  bool hides_tensor = false;   // whether the other axis is hidden, which no batch decides
  double widest_tensor = 0;    // ranks of that axis up to which it is
};
MeshBound mesh_bound(const Mesh& mesh, int64_t d_ff, double compute_bytes, const RankRates& rates);

}  // namespace ridgeline
