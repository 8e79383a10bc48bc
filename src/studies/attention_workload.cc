#include "studies/attention_workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "passes/flash.h"
#include "studies/peer_implementations.h"

namespace ridgeline {
namespace {

std::vector<int64_t> powers_of_two(int first, int last) {
  std::vector<int64_t> powers;
  for (int exponent = first; exponent <= last; ++exponent) powers.push_back(int64_t{1} << exponent);
  return powers;
}

}  // namespace

const std::vector<AttentionImplementation>& attention_implementations() {
  static const std::vector<AttentionImplementation> kImplementations = {
      {"naive", AttentionForm::plain, false,
       "one kernel per step of the formula, as an eager framework runs it"},
      {"compiled", AttentionForm::plain, true,
       "what the compiler makes of naive: attention recognised, the rest fused"},
      {"flash", AttentionForm::fused, false, "one kernel that never stores the S x S scores"},
  };
  return kImplementations;
}

const AttentionImplementation& find_attention_implementation(std::string_view name) {
  std::vector<std::string_view> known;
  for (const AttentionImplementation& implementation : attention_implementations()) {
    if (implementation.name == name) return implementation;
    known.push_back(implementation.name);
  }
  throw Error(ErrorKind::usage, fmt::format("there is no attention implementation '{}'", name),
              fmt::format("use one of: {}; --list also has the libraries to compare with",
                          fmt::join(known, ", ")));
}

std::string refusal(const AttentionConfig& config, AttentionForm form) {
  const int64_t widest = FlashOptions().max_head_dim;
  if (form != AttentionForm::fused || config.head_dim <= widest) return {};
  return fmt::format("attention heads are {} wide, and the flash kernels end at {}: use naive",
                     config.head_dim, widest);
}

AttentionMatrix attention_preset(std::string_view name) {
  if (name == "cs336") return {};
  if (name == "flash")
    return {.batch_sizes = {1},
            .head_dims = powers_of_two(4, 7),
            .seq_lens = powers_of_two(7, 16),
            .dtypes = {"bf16", "fp32"},
            .causal = true};
  if (name == "leaderboard")
    return {.batch_sizes = {1},
            .head_dims = {64},
            .seq_lens = {16384},
            .heads = {16},
            .dtypes = {"bf16"},
            .causal = true};
  throw Error(ErrorKind::usage, fmt::format("there is no preset '{}'", name),
              "use cs336, flash or leaderboard");
}

std::vector<AttentionWorkload> expand_matrix(const AttentionMatrix& matrix) {
  std::vector<AttentionWorkload> workloads;
  for (const std::string& implementation : matrix.implementations)
    if (!find_peer(implementation)) find_attention_implementation(implementation);
  for (const std::string& dtype : matrix.dtypes)
    for (int64_t batch_size : matrix.batch_sizes)
      for (int64_t heads : matrix.heads)
        for (int64_t head_dim : matrix.head_dims)
          for (int64_t seq_len : matrix.seq_lens)
            for (const std::string& implementation : matrix.implementations)
              workloads.push_back({{.batch_size = batch_size,
                                    .heads = heads,
                                    .seq_len = seq_len,
                                    .head_dim = head_dim,
                                    .causal = matrix.causal,
                                    .dtype = parse_float_dtype(dtype),
                                    .backward = matrix.backward},
                                   implementation});
  return workloads;
}

std::string_view name(BackwardAlgorithm algorithm) {
  return algorithm == BackwardAlgorithm::two_pass ? "two-pass" : "single-pass";
}

BackwardAlgorithm parse_backward_algorithm(std::string_view text) {
  for (BackwardAlgorithm algorithm : {BackwardAlgorithm::two_pass, BackwardAlgorithm::single_pass})
    if (name(algorithm) == text) return algorithm;
  throw Error(ErrorKind::usage, fmt::format("'{}' is not a backward algorithm", text),
              "use two-pass or single-pass");
}

BackwardAlgorithm backward_algorithm(std::string_view given, const DeviceFacts& facts) {
  if (given.empty())
    return facts.deterministic ? BackwardAlgorithm::two_pass : BackwardAlgorithm::single_pass;
  const BackwardAlgorithm algorithm = parse_backward_algorithm(given);
  if (facts.deterministic && algorithm == BackwardAlgorithm::single_pass)
    throw Error(ErrorKind::usage,
                "a single-pass backward adds by atomics, which --deterministic excludes",
                "give two-pass or leave out one of the two");
  return algorithm;
}

std::string label(const AttentionWorkload& workload) {
  const AttentionConfig& config = workload.config;
  return fmt::format("{} S={} d={} batch={}{} {}{}", workload.implementation, config.seq_len,
                     config.head_dim, config.batch_size,
                     config.heads > 1 ? fmt::format(" heads={}", config.heads) : "",
                     info(config.dtype).name, config.causal ? " causal" : "");
}

}  // namespace ridgeline
