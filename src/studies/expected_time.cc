#include "studies/expected_time.h"

#include <algorithm>

#include "studies/attention/verify.h"
#include "studies/device_facts.h"

namespace ridgeline {
namespace {

constexpr double kShareOfPeak = 0.35;       // of the peak FLOP/s that a whole row reaches
constexpr double kShareOfBandwidth = 0.5;   // of the peak bandwidth, likewise
constexpr double kUnknownFlopsPerS = 50e9;  // if no peak is known
constexpr double kHostBytesPerS = 20e9;
constexpr double kLaunchS = 5e-6;
constexpr double kOracleFlopsPerS = 4e9;     // of one thread, in fp64
constexpr double kFirstRunOfAGpuS = 0.5;     // compiling and loading kernels
constexpr double kRunsBesideSamples = 2;     // the first run and the verified one
constexpr double kShortShareOfBudget = 0.3;  // short runs know their median early
constexpr double kShortRunsInBudget = 200;

// Exponentials and sums per score, in FLOPs. They do not depend on head_dim and outweigh the
// products of narrow heads.
constexpr double kScoreFlopsForward = 45, kScoreFlopsBackward = 105;

double verification_s(const AttentionConfig& config, int threads) {
  constexpr double kReferences = 2;  // the oracle, and a plain implementation of the dtype
  const auto s = static_cast<double>(config.seq_len);
  const bool whole = config.seq_len <= kWholeTensorLimit;
  const double heads = whole ? static_cast<double>(config.batch_size * config.heads) : 1;
  const double rows = whole ? s : static_cast<double>(kSampledRows);
  return kFlopsOfBothPasses * kReferences * heads * rows * s *
         static_cast<double>(config.head_dim) / kOracleFlopsPerS / std::max(1, threads);
}

}  // namespace

double expected_once_s(const ExpectedWork& work, const Device& device,
                       const MachineFacts& machine) {
  const Peaks peaks = device_peaks(device.facts(), machine, work.dtype);
  const double flops_per_s = kShareOfPeak * peaks.flops_per_s.value_or(kUnknownFlopsPerS);
  const double bytes_per_s = kShareOfBandwidth * peaks.bytes_per_s.value_or(kHostBytesPerS);
  return kLaunchS + work.slowdown * work.flops / flops_per_s + work.bytes / bytes_per_s;
}

double expected_samples_s(double iteration_s, const Protocol& protocol) {
  if (protocol.time_budget_s <= 0)
    return iteration_s * static_cast<double>(protocol.warmups + protocol.iterations);
  const bool is_short = iteration_s * kShortRunsInBudget < protocol.time_budget_s;
  const double least = iteration_s * (protocol.min_iterations + (protocol.warmups > 0 ? 1 : 0));
  return std::max(least, (is_short ? kShortShareOfBudget : 1) * protocol.time_budget_s);
}

double expected_attention_s(const AttentionConfig& config, const Record& described,
                            const Device& device, const ExpectedAttention& how) {
  const bool is_tried =
      described.status == Status::ok && described.memory.predicted_peak <= device.ledger().budget();
  if (!is_tried || !described.cost) return 0;
  PhaseCost cost = described.cost->forward;
  if (how.backward) {
    cost.flops += described.cost->backward.flops;
    cost.bytes += described.cost->backward.bytes;
  }
  const auto s = static_cast<double>(config.seq_len);
  const double scores =
      static_cast<double>(config.batch_size * config.heads) * s * s / (config.causal ? 2 : 1);
  const double of_scores = scores * (kScoreFlopsForward + (how.backward ? kScoreFlopsBackward : 0));
  const double once = expected_once_s({.flops = static_cast<double>(cost.flops) + of_scores,
                                       .bytes = static_cast<double>(cost.bytes.count),
                                       .dtype = info(config.dtype).name},
                                      device, described.machine);
  return (device.facts().is_gpu() ? kFirstRunOfAGpuS : 0) + kRunsBesideSamples * once +
         (how.verify ? verification_s(config, described.machine.logical_cores) : 0) +
         expected_samples_s(how.calls_per_sample * once, how.protocol);
}

}  // namespace ridgeline
