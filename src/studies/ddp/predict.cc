#include "studies/ddp/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace ridgeline {
namespace {

constexpr int kMostRanks = 4096;
constexpr int64_t kMostShards = 1 << 20;
// AdamW reads a weight, its gradient and both moments, and writes three of them, in fp32.
constexpr double kOptimizerBytes = 7 * 4;
constexpr double kNoticeable = 0.1;  // share of a step from which exposed communication is noted

std::string ms(double seconds) {
  return fmt::format("{:.4g}", seconds * 1e3);
}

std::string count(double number) {
  return fmt::format("{:.0f}", std::ceil(number));
}

std::string_view dtype_name(bool in_16_bits) {
  return in_16_bits ? "bf16" : "fp32";
}

CollectiveKind first_kind(ParallelStrategy strategy) {
  return info(strategy).shards_moments ? CollectiveKind::reduce_scatter
                                       : CollectiveKind::all_reduce;
}

}  // namespace

Calculator::Calculator(PredictedModel model, PredictOptions options)
    : model_(std::move(model)), options_(std::move(options)) {
  if (options_.strategies.empty())
    for (const ParallelStrategyInfo& row : parallel_strategies())
      options_.strategies.push_back(row.strategy);
}

StepTimes Calculator::times() const {
  const double forward =
      chosen().forward_flops_per_token * options_.tokens() / options_.device.flops_per_s();
  return {.forward_s = forward,
          .backward_s = 2 * forward,
          .optimizer_s = kOptimizerBytes * static_cast<double>(chosen().parameters) /
                         options_.device.memory_bytes_per_s};
}

double Calculator::bucket_bytes(int ranks, CollectiveAlgorithm algorithm) const {
  if (options_.bucket_bytes) return *options_.bucket_bytes;
  const double bytes = chosen().compute_bytes * static_cast<double>(chosen().parameters);
  const CollectiveTime time_of = modelled_time(algorithm, options_.network, ranks);
  const double overhead = time_of(CollectiveKind::all_reduce, 0);
  const double seconds = time_of(CollectiveKind::all_reduce, bytes) - overhead;
  return seconds > 0 ? best_bucket_bytes(bytes, bytes / seconds, overhead) : bytes;
}

PredictedStep Calculator::step(ParallelStrategy strategy, CollectiveAlgorithm algorithm,
                               int ranks) const {
  std::vector<double> bytes = info(strategy).shards_parameters ? model_.units : model_.tensors;
  for (double& each : bytes) each *= chosen().compute_bytes;
  double most = 0;  // one collective per tensor or unit
  if (strategy == ParallelStrategy::flat) most = HUGE_VAL;
  if (strategy == ParallelStrategy::bucketed || strategy == ParallelStrategy::sharded)
    most = bucket_bytes(ranks, algorithm);
  return predict_step(times(),
                      {.strategy = strategy,
                       .gradients = buckets_of(bytes, most),
                       .ranks = ranks,
                       .micro_batches = static_cast<int>(options_.micro_batches)},
                      modelled_time(algorithm, options_.network, ranks));
}

RankMemory Calculator::memory_of_rank(ParallelStrategy strategy, int64_t ranks) const {
  return rank_memory(chosen(), strategy, ranks, options_.tokens_at_a_time(),
                     options_.micro_batches);
}

ParallelStrategy Calculator::strategy_of_algorithms() const {
  const auto has = [&](ParallelStrategy strategy) {
    return std::ranges::count(options_.strategies, strategy) > 0;
  };
  return has(ParallelStrategy::bucketed) ? ParallelStrategy::bucketed : options_.strategies.front();
}

CollectiveAlgorithm Calculator::fastest(ParallelStrategy strategy, int ranks) const {
  CollectiveAlgorithm best = CollectiveAlgorithm::ring;
  for (const CollectiveAlgorithmInfo& row : collective_algorithms())
    if (step(strategy, row.algorithm, ranks).step_s < step(strategy, best, ranks).step_s)
      best = row.algorithm;
  return best;
}

std::vector<int> Calculator::all_ranks() const {
  std::vector<int> found;
  for (int ranks = 2; ranks <= kMostRanks;
       ranks += ranks < options_.network.ranks_per_node ? 1 : options_.network.ranks_per_node)
    found.push_back(ranks);
  return found;
}

std::optional<int> Calculator::ranks_from(const std::function<bool(int)>& is_so) const {
  std::optional<int> from;
  const std::vector<int> all = all_ranks();
  for (auto ranks = all.rbegin(); ranks != all.rend() && is_so(*ranks); ++ranks) from = *ranks;
  return from;
}

RankMemory Calculator::memory_of_one(const TrainedModel& model) const {
  return rank_memory(model, ParallelStrategy::naive, 1, options_.tokens());
}

Table Calculator::memory_by_part() const {
  Table table{.title = fmt::format("Memory of {}: {:.4g} G parameters in {} blocks, {} tokens",
                                   chosen().name, static_cast<double>(chosen().parameters) / 1e9,
                                   chosen().blocks, options_.tokens()),
              .columns = {"part", "fp32", "bf16", "bytes in fp32", "bytes in bf16"}};
  const RankMemory wide = memory_of_one(model_.in_fp32), narrow = memory_of_one(model_.in_bf16);
  const auto add = [&](const char* part, double in_fp32, double in_bf16) {
    table.rows.push_back({part, format_decimal_bytes(in_fp32), format_decimal_bytes(in_bf16),
                          fmt::format("{:.0f}", in_fp32), fmt::format("{:.0f}", in_bf16)});
  };
  add("master weights, fp32", wide.weights, narrow.weights);
  add("accumulated gradients, fp32", wide.gradients, narrow.gradients);
  add("moments of Adam, fp32", wide.moments, narrow.moments);
  add("16-bit copies of weights", wide.copies, narrow.copies);
  add("activations saved for backward", wide.activations, narrow.activations);
  add("together", wide.total(), narrow.total());
  table.spare = {"bytes in bf16", "bytes in fp32"};
  return table;
}

Table Calculator::memory_by_strategy() const {
  Table table{
      .title = fmt::format("Memory of a rank ({}, {} tokens at a time), and the fewest ranks of {}",
                           dtype_name(options_.in_16_bits), options_.tokens_at_a_time(),
                           format_decimal_bytes(options_.device.memory_bytes)),
      .columns = {"strategy", "ranks", "weights", "gradients", "moments", "copies", "activations",
                  "together", "fits", "fewest ranks"}};
  for (const ParallelStrategy strategy : options_.strategies) {
    const auto bytes_of = [&](int64_t ranks) { return memory_of_rank(strategy, ranks).total(); };
    const auto fewest = fewest_ranks(options_.device.memory_bytes, kMostShards, bytes_of);
    for (const int64_t ranks : options_.ranks) {
      const RankMemory memory = memory_of_rank(strategy, ranks);
      table.rows.push_back(
          {std::string(info(strategy).name), fmt::format("{}", ranks),
           format_decimal_bytes(memory.weights), format_decimal_bytes(memory.gradients),
           format_decimal_bytes(memory.moments), format_decimal_bytes(memory.copies),
           format_decimal_bytes(memory.activations), format_decimal_bytes(memory.total()),
           memory.total() <= options_.device.memory_bytes ? "yes" : "no",
           fewest ? fmt::format("{}", *fewest) : "none"});
    }
  }
  return table;
}

Table Calculator::hiding() const {
  Table table{.title = "When computation hides communication (latency not counted)",
              .columns = {"strategy", "ranks", "sent by a rank", "can be hidden", "behind",
                          "bandwidth needed", "tokens per rank needed", "batch per rank",
                          "tokens of all ranks"}};
  const double rate = options_.device.flops_per_s();
  for (const ParallelStrategy strategy : options_.strategies)
    for (const int64_t all : options_.ranks) {
      const auto ranks = static_cast<int>(all);
      // The last micro-batch has the most to hide: gradients, and with fsdp its own gathers.
      const auto bandwidth =
          hiding_bandwidth(chosen(), strategy, ranks, options_.tokens_at_a_time(), rate);
      const auto needed =
          hiding_tokens(chosen(), strategy, ranks, {rate, options_.network.inside.bytes_per_s});
      const double all_needed = needed.value_or(0) * static_cast<double>(options_.micro_batches);
      table.rows.push_back(
          {std::string(info(strategy).name), fmt::format("{}", ranks),
           format_decimal_bytes(sent_per_step(chosen(), strategy, ranks, options_.micro_batches)),
           format_decimal_bytes(hidden_per_step(chosen(), strategy, ranks, options_.micro_batches)),
           !needed                            ? "nothing"
           : info(strategy).shards_parameters ? "both passes"
                                              : "backward",
           bandwidth ? format_bandwidth(*bandwidth) : "-", needed ? count(all_needed) : "-",
           needed ? count(all_needed / static_cast<double>(options_.context_length)) : "-",
           needed ? count(all_needed * ranks) : "-"});
    }
  return table;
}

Table Calculator::steps_by_strategy() const {
  Table table{.title = "Simulated step, ms, by the fastest algorithm of each strategy",
              .columns = {"ranks", "nodes", "compute"}};
  for (const ParallelStrategy strategy : options_.strategies)
    table.columns.emplace_back(info(strategy).name);
  for (int ranks = 2; ranks <= kMostRanks; ranks *= 2) {
    const StepTimes compute = times();
    std::vector<std::string> cells = {
        fmt::format("{}", ranks), fmt::format("{}", options_.network.nodes(ranks)),
        ms(compute.forward_s + compute.backward_s + compute.optimizer_s)};
    for (const ParallelStrategy strategy : options_.strategies)
      cells.push_back(ms(step(strategy, fastest(strategy, ranks), ranks).step_s));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table Calculator::steps_by_algorithm() const {
  const ParallelStrategy strategy = strategy_of_algorithms();
  Table table{.title = fmt::format("Simulated step of {}, ms, by algorithm", info(strategy).name),
              .columns = {"ranks"}};
  for (const CollectiveAlgorithmInfo& row : collective_algorithms())
    table.columns.emplace_back(row.name);
  for (const char* column :
       {"fastest", "communication", "exposed", "efficiency", "bucket", "tokens/s of all"})
    table.columns.emplace_back(column);
  for (int ranks = 2; ranks <= kMostRanks; ranks *= 2) {
    std::vector<std::string> cells = {fmt::format("{}", ranks)};
    for (const CollectiveAlgorithmInfo& row : collective_algorithms())
      cells.push_back(ms(step(strategy, row.algorithm, ranks).step_s));
    const CollectiveAlgorithm best = fastest(strategy, ranks);
    const PredictedStep predicted = step(strategy, best, ranks);
    cells.insert(cells.end(),
                 {std::string(name(best)), ms(predicted.communication_s), ms(predicted.exposed_s()),
                  fmt::format("{:.3f}", predicted.compute_s / predicted.step_s),
                  format_decimal_bytes(bucket_bytes(ranks, best)),
                  fmt::format("{:.3g}", options_.tokens() * ranks / predicted.step_s)});
    table.rows.push_back(std::move(cells));
  }
  table.spare = {"tokens/s of all", "bucket"};
  return table;
}

Table Calculator::csv() const {
  Table table{.columns = {"model", "dtype", "strategy", "algorithm", "ranks", "nodes",
                          "tokens_per_rank", "micro_batches", "bucket_bytes", "compute_ms",
                          "communication_ms", "exposed_ms", "step_ms", "collectives", "sent_bytes",
                          "rank_memory_bytes"}};
  for (const ParallelStrategy strategy : options_.strategies)
    for (const CollectiveAlgorithmInfo& row : collective_algorithms())
      for (int ranks = 2; ranks <= kMostRanks; ranks *= 2) {
        const PredictedStep predicted = step(strategy, row.algorithm, ranks);
        const RankMemory memory = memory_of_rank(strategy, ranks);
        table.rows.push_back(
            {chosen().name, std::string(dtype_name(options_.in_16_bits)),
             std::string(info(strategy).name), std::string(row.name), fmt::format("{}", ranks),
             fmt::format("{}", options_.network.nodes(ranks)), fmt::format("{}", options_.tokens()),
             fmt::format("{}", options_.micro_batches),
             fmt::format("{:.0f}", bucket_bytes(ranks, row.algorithm)),
             fmt::format("{}", predicted.compute_s * 1e3),
             fmt::format("{}", predicted.communication_s * 1e3),
             fmt::format("{}", predicted.exposed_s() * 1e3),
             fmt::format("{}", predicted.step_s * 1e3), fmt::format("{}", predicted.collectives),
             fmt::format("{:.0f}", predicted.sent_bytes), fmt::format("{:.0f}", memory.total())});
      }
  return table;
}

std::vector<std::string> Calculator::account_notes() const {
  std::vector<std::string> notes;
  const PaperDevice& device = options_.device;
  const RankMemory memory = memory_of_one(chosen());
  const RankMemory wide = memory_of_one(model_.in_fp32), narrow = memory_of_one(model_.in_bf16);
  notes.push_back(fmt::format(
      "Master weights, gradients and moments in fp32 take 16 bytes per parameter, {} in all: the "
      "memory of {} {} of {}.",
      format_decimal_bytes(memory.state()), count(memory.state() / device.memory_bytes),
      device.name, format_decimal_bytes(device.memory_bytes)));
  notes.push_back(fmt::format(
      "{} tokens save {} for backward in fp32 and {} in bf16, {} per token in bf16: {}.",
      options_.tokens(), format_decimal_bytes(wide.activations),
      format_decimal_bytes(narrow.activations),
      format_decimal_bytes(model_.in_bf16.saved_bytes_per_token), model_.saved_by));
  const auto spread = [&](int64_t ranks) {
    return spread_bytes(chosen(), ranks, options_.tokens(), 0.5);
  };
  const auto fewest = fewest_ranks(device.memory_bytes, kMostShards, spread);
  notes.push_back(fmt::format(
      "State and half of the activations sharded over N ranks, the other half on each, take {}/N + "
      "{} + {}/N bytes per rank: {}.",
      format_decimal_bytes(memory.state()), format_decimal_bytes(memory.activations / 2),
      format_decimal_bytes(memory.activations / 2),
      fewest ? fmt::format("below {} from {} ranks on", format_decimal_bytes(device.memory_bytes),
                           *fewest)
             : fmt::format("more than {} on any number of ranks, so the batch has to be smaller",
                           format_decimal_bytes(device.memory_bytes))));
  if (options_.mesh) {
    const Mesh& mesh = *options_.mesh;
    const MeshBound bound = mesh_bound(mesh, model_.d_ff, chosen().compute_bytes,
                                       {device.flops_per_s(), options_.network.inside.bytes_per_s});
    notes.push_back(fmt::format(
        "The forward pass of {} x {} ranks (fsdp x tensor parallel, {} and {} links of {}) "
        "computes "
        "longer than it gathers weights from {} tokens per rank on, a batch of {} tokens; its "
        "activations are {} with up to {:.1f} tensor-parallel ranks.",
        mesh.fsdp, mesh.tensor, mesh.fsdp_links, mesh.tensor_links,
        format_bandwidth(options_.network.inside.bytes_per_s), count(bound.tokens_per_rank),
        count(bound.tokens), bound.hides_tensor ? "hidden, as they are" : "not hidden, as they are",
        bound.widest_tensor));
  }
  return notes;
}

std::vector<std::string> Calculator::simulation_notes() const {
  std::vector<std::string> notes;
  const ParallelStrategy strategy = strategy_of_algorithms();
  const double bytes = chosen().compute_bytes * static_cast<double>(chosen().parameters);
  const auto seconds = [&](CollectiveAlgorithm algorithm, int ranks) {
    return collective_cost({first_kind(strategy), bytes, ranks}, algorithm, options_.network)
        .seconds;
  };
  const auto crossing = [&](CollectiveAlgorithm one, CollectiveAlgorithm other) {
    const auto first = ranks_from(
        [&](int ranks) { return seconds(other, ranks) < seconds(one, ranks) * (1 - 1e-9); });
    notes.push_back(
        first ? fmt::format(
                    "From {} ranks on, a {} {} of {} is faster than a {}: {} against {}.", *first,
                    name(other), name(first_kind(strategy)), format_decimal_bytes(bytes), name(one),
                    format_seconds(seconds(other, *first)), format_seconds(seconds(one, *first)))
              : fmt::format("With {} ranks, a {} {} of {} is no faster than a {}.", kMostRanks,
                            name(other), name(first_kind(strategy)), format_decimal_bytes(bytes),
                            name(one)));
  };
  crossing(CollectiveAlgorithm::ring, CollectiveAlgorithm::tree);
  crossing(CollectiveAlgorithm::ring, CollectiveAlgorithm::hierarchical);
  crossing(CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::tree);
  for (const int64_t ranks : options_.ranks) {
    const int within = static_cast<int>(std::min<int64_t>(ranks, options_.network.ranks_per_node));
    if (const auto size = ring_over_tree_bytes(within, options_.network.inside))
      notes.push_back(
          fmt::format("Among {} ranks of a node, an all-reduce is faster by a tree below {} and by "
                      "a ring above.",
                      within, format_decimal_bytes(*size)));
  }
  for (const ParallelStrategy each : options_.strategies) {
    const auto first = ranks_from([&](int ranks) {
      const PredictedStep predicted = step(each, fastest(each, ranks), ranks);
      return predicted.exposed_s() > kNoticeable * predicted.step_s;
    });
    notes.push_back(
        first
            ? fmt::format("{}: from {} ranks on, more than {:.0f} % of a step waits for "
                          "communication.",
                          info(each).name, *first, kNoticeable * 100)
            : fmt::format("{}: with {} ranks, at most {:.0f} % of a step waits for communication.",
                          info(each).name, kMostRanks, kNoticeable * 100));
  }
  for (const int64_t all : options_.ranks) {
    const auto ranks = static_cast<int>(all);
    if (ranks < 2 || options_.bucket_bytes) continue;
    notes.push_back(
        fmt::format("With {} ranks, the bucket that leaves least exposed has {}: the square root "
                    "of bytes times "
                    "bandwidth times overhead.",
                    ranks, format_decimal_bytes(bucket_bytes(ranks, fastest(strategy, ranks)))));
  }
  return notes;
}

}  // namespace ridgeline
