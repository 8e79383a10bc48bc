#include "cost/parallel_account.h"

namespace ridgeline {
namespace {

constexpr double kMaster = 4;         // bytes per element in fp32
constexpr double kMoments = 2;        // of Adam
constexpr double kUnitsAtATime = 2;   // gathered by fsdp
constexpr double kBackwardFlops = 2;  // relative to forward

// Bytes that a rank sends in a reduce-scatter or an all-gather of all parameters.
double sent_once(const TrainedModel& model, int ranks) {
  if (ranks < 2) return 0;
  return bus_factor(CollectiveKind::all_gather, ranks) * model.compute_bytes *
         static_cast<double>(model.parameters);
}

}  // namespace

TrainedModel linear_block_model(const LinearBlocks& sizes, double compute_bytes) {
  const int64_t block = 2 * sizes.d_model * sizes.d_ff;
  return {.name = "blocks of two linear layers",
          .parameters = sizes.blocks * block,
          .blocks = sizes.blocks,
          .block_parameters = block,
          .forward_flops_per_token = 2.0 * static_cast<double>(sizes.blocks * block),
          .saved_bytes_per_token =
              compute_bytes * static_cast<double>(sizes.blocks * (sizes.d_model + sizes.d_ff)),
          .compute_bytes = compute_bytes};
}

RankMemory rank_memory(const TrainedModel& model, ParallelStrategy strategy, int64_t ranks,
                       double tokens_at_a_time, int64_t micro_batches) {
  const ParallelStrategyInfo& how = info(strategy);
  const auto parameters = static_cast<double>(model.parameters);
  const auto spread = static_cast<double>(ranks);
  const double shard = parameters / (how.shards_parameters ? spread : 1);
  const bool is_16_bit = model.compute_bytes < kMaster;
  RankMemory memory{.weights = kMaster * shard,
                    .gradients = kMaster * (micro_batches > 1 ? parameters : shard),
                    .moments = kMoments * kMaster * parameters / (how.shards_moments ? spread : 1),
                    .activations = model.saved_bytes_per_token * tokens_at_a_time};
  if (how.shards_parameters && ranks > 1)  // weights of two units, and the gradient of one
    memory.copies =
        (kUnitsAtATime + 1) * model.compute_bytes * static_cast<double>(model.block_parameters);
  else if (is_16_bit)
    memory.copies = model.compute_bytes * parameters;
  return memory;
}

double spread_bytes(const TrainedModel& model, int64_t ranks, double tokens,
                    double sharded_activations) {
  const double state = (2 + kMoments) * kMaster * static_cast<double>(model.parameters);
  const double activations = model.saved_bytes_per_token * tokens;
  const auto spread = static_cast<double>(ranks);
  return state / spread + activations * (1 - sharded_activations + sharded_activations / spread);
}

std::optional<int64_t> fewest_ranks(double memory_bytes, int64_t most_ranks,
                                    const std::function<double(int64_t)>& bytes_of_rank) {
  if (bytes_of_rank(1) <= memory_bytes) return 1;
  if (bytes_of_rank(most_ranks) > memory_bytes) return std::nullopt;
  // From two ranks on, bytes per rank do not increase with ranks. One has no gathered copies.
  int64_t too_few = 1, enough = most_ranks;
  while (enough - too_few > 1) {
    const int64_t middle = too_few + (enough - too_few) / 2;
    (bytes_of_rank(middle) > memory_bytes ? too_few : enough) = middle;
  }
  return enough;
}

double sent_per_step(const TrainedModel& model, ParallelStrategy strategy, int ranks,
                     int64_t micro_batches) {
  // An all-reduce is a reduce-scatter and an all-gather; fsdp gathers twice per micro-batch.
  const double gathers =
      info(strategy).shards_parameters ? 2 * static_cast<double>(micro_batches) : 1;
  return (gathers + 1) * sent_once(model, ranks);
}

double hidden_per_step(const TrainedModel& model, ParallelStrategy strategy, int ranks,
                       int64_t micro_batches) {
  const ParallelStrategyInfo& how = info(strategy);
  if (!how.overlaps) return 0;
  const bool gathers_last = how.shards_moments && !how.shards_parameters;
  return sent_per_step(model, strategy, ranks, micro_batches) -
         (gathers_last ? sent_once(model, ranks) : 0);
}

double hiding_seconds(const TrainedModel& model, ParallelStrategy strategy, double tokens_per_rank,
                      double flops_per_s) {
  const ParallelStrategyInfo& how = info(strategy);
  if (!how.overlaps) return 0;
  const double forwards = kBackwardFlops + (how.shards_parameters ? 1 : 0);
  return forwards * model.forward_flops_per_token * tokens_per_rank / flops_per_s;
}

std::optional<double> hiding_bandwidth(const TrainedModel& model, ParallelStrategy strategy,
                                       int ranks, double tokens_per_rank, double flops_per_s) {
  const double seconds = hiding_seconds(model, strategy, tokens_per_rank, flops_per_s);
  if (seconds <= 0) return std::nullopt;
  return hidden_per_step(model, strategy, ranks) / seconds;
}

std::optional<double> hiding_tokens(const TrainedModel& model, ParallelStrategy strategy, int ranks,
                                    const RankRates& rates) {
  const double per_token = hiding_seconds(model, strategy, 1, rates.flops_per_s);
  if (per_token <= 0) return std::nullopt;
  return hidden_per_step(model, strategy, ranks) / rates.bytes_per_s / per_token;
}

MeshBound mesh_bound(const Mesh& mesh, int64_t d_ff, double compute_bytes, const RankRates& rates) {
  // With B tokens, X fsdp ranks and Y tensor-parallel ranks, a layer with weights [D, F] takes
  // 2 B D F / (X Y) FLOPs per rank. Gathering its weights along X moves D F / Y elements over the
  // links of X, and gathering activations along Y moves B D / X elements over the links of Y.
  const double flops_per_element = rates.flops_per_s / rates.bytes_per_s * compute_bytes / 2;
  MeshBound bound;
  bound.tokens = mesh.fsdp * flops_per_element / mesh.fsdp_links;
  bound.tokens_per_rank = bound.tokens / (mesh.fsdp * mesh.tensor);
  bound.widest_tensor = static_cast<double>(d_ff) * mesh.tensor_links / flops_per_element;
  bound.hides_tensor = mesh.tensor <= bound.widest_tensor;
  return bound;
}

}  // namespace ridgeline
