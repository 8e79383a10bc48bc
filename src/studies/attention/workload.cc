#include "studies/attention/workload.h"

#include <fmt/format.h>

#include "base/closest.h"
#include "base/error.h"
#include "base/print.h"
#include "passes/flash.h"
#include "studies/attention/record_rows.h"
#include "studies/peers/implementations.h"

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
      {"naive", AttentionForm::plain, Mode::vanilla,
       "one kernel per step of the formula, as an eager framework runs it"},
      {"fused", AttentionForm::plain, Mode::fused,
       "what the compiler makes of naive without recognising attention: S x S scores are stored"},
      {"compiled", AttentionForm::plain, Mode::compiled,
       "what the compiler makes of naive: attention recognised, the rest fused"},
      {"flash", AttentionForm::fused, Mode::vanilla,
       "the kernel by itself, which never stores the S x S scores"},
  };
  return kImplementations;
}

const AttentionImplementation& find_attention_implementation(std::string_view name) {
  KnownNames known{.what = "an attention implementation",
                   .names = {},
                   .more = "--list also has the libraries to compare with"};
  for (const AttentionImplementation& implementation : attention_implementations()) {
    if (implementation.name == name) return implementation;
    known.names.emplace_back(implementation.name);
  }
  for (const PeerImplementation& peer : kAttentionPeers) known.others.emplace_back(peer.name);
  throw unknown_name(name, known);
}

Trace attention_trace(const AttentionWorkload& workload) {
  const AttentionForm form = find_attention_implementation(workload.implementation).form;
  return [config = workload.config, form](const Rewrite& forward) {
    return attention_training_graph(config, form, forward);
  };
}

CompileOptions attention_options(const AttentionWorkload& workload) {
  return {.mode = find_attention_implementation(workload.implementation).mode,
          .backward = workload.config.backward,
          .message = say_once};
}

bool is_planned(const AttentionWorkload& workload) {
  return !kAttentionPeers.find(workload.implementation) &&
         info(find_attention_implementation(workload.implementation).mode).fuse;
}

std::string refusal(const AttentionConfig& config, AttentionForm form) {
  const int64_t widest = FlashOptions().max_head_dim;
  if (form != AttentionForm::fused || config.head_dim <= widest) return {};
  return fmt::format(
      "attention heads are {} wide, and the flash kernels support up to {}: use naive",
      config.head_dim, widest);
}

const std::vector<AttentionPreset>& attention_presets() {
  static const std::vector<AttentionPreset> kPresets = {
      {"cs336", "batch 8, d 16 to 128, S 256 to 16384, fp32", {AttentionMatrix()}},
      {"flash",
       "batch 1, causal, d 16 to 128, S 128 to 65536, bf16 and fp32",
       {{.batch_sizes = {1},
         .head_dims = powers_of_two(4, 7),
         .seq_lens = powers_of_two(7, 16),
         .dtypes = {"bf16", "fp32"},
         .causal = true}}},
      {"leaderboard",
       "16 heads, d 64, S 16384, bf16, causal",
       {{.batch_sizes = {1},
         .head_dims = {64},
         .seq_lens = {16384},
         .heads = {16},
         .dtypes = {"bf16"},
         .causal = true}}},
      // Narrow heads reach the length at which naive attention no longer fits most machines.
      {"study",
       "batch 8, d 16 up to S 16384, d 64 up to S 4096, fp32: a few minutes, within the budget",
       {{.head_dims = {16}, .seq_lens = {256, 1024, 4096, 16384}},
        {.head_dims = {64}, .seq_lens = {256, 1024, 4096}}},
       false},
  };
  return kPresets;
}

const AttentionPreset& find_attention_preset(std::string_view name) {
  return find_named(attention_presets(), name, "a preset");
}

bool chooses_backward(std::string_view implementation) {
  if (kAttentionPeers.find(implementation)) return false;
  const AttentionImplementation& how = find_attention_implementation(implementation);
  return how.form == AttentionForm::fused || info(how.mode).flash;
}

std::vector<BackwardAlgorithm> backward_rows(const std::string& implementation,
                                             const std::vector<BackwardAlgorithm>& algorithms) {
  if (chooses_backward(implementation)) return algorithms;
  return {algorithms.front()};
}

std::vector<AttentionWorkload> expand_matrix(const AttentionMatrix& matrix) {
  std::vector<AttentionWorkload> workloads;
  for (const std::string& implementation : matrix.implementations)
    if (!kAttentionPeers.find(implementation)) find_attention_implementation(implementation);
  for (const std::string& dtype : matrix.dtypes)
    for (int64_t batch_size : matrix.batch_sizes)
      for (int64_t heads : matrix.heads)
        for (int64_t head_dim : matrix.head_dims)
          for (int64_t seq_len : matrix.seq_lens)
            for (const std::string& implementation : matrix.implementations)
              for (BackwardAlgorithm backward : backward_rows(implementation, matrix.backward))
                workloads.push_back({{.batch_size = batch_size,
                                      .heads = heads,
                                      .seq_len = seq_len,
                                      .head_dim = head_dim,
                                      .causal = matrix.causal,
                                      .dtype = parse_float_dtype(dtype),
                                      .backward = backward},
                                     implementation});
  return workloads;
}

std::string_view name(BackwardAlgorithm algorithm) {
  return algorithm == BackwardAlgorithm::two_pass ? "two-pass" : "single-pass";
}

BackwardAlgorithm parse_backward_algorithm(std::string_view text) {
  KnownNames known{.what = "a backward algorithm", .names = {}};
  for (BackwardAlgorithm algorithm :
       {BackwardAlgorithm::single_pass, BackwardAlgorithm::two_pass}) {
    if (name(algorithm) == text) return algorithm;
    known.names.emplace_back(name(algorithm));
  }
  throw unknown_name(text, known);
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

std::vector<BackwardAlgorithm> backward_algorithms(const std::vector<std::string>& given,
                                                   const DeviceFacts& facts) {
  std::vector<BackwardAlgorithm> algorithms;
  for (const std::string& text : given) algorithms.push_back(backward_algorithm(text, facts));
  if (algorithms.empty()) algorithms.push_back(backward_algorithm({}, facts));
  return algorithms;
}

std::optional<AttentionConfig> attention_config_of(const Record& record) {
  const auto size = attention_size(record);
  if (!size) return std::nullopt;
  // Sizes from a file may be anything; beyond this they cannot be counted in 64 bits.
  double elements = 1;
  for (const int64_t each :
       {size->batch_size, size->heads, size->seq_len, size->seq_len, size->d_model})
    elements *= static_cast<double>(each);
  if (elements > 0x1p56) return std::nullopt;
  return AttentionConfig{.batch_size = size->batch_size,
                         .heads = size->heads,
                         .seq_len = size->seq_len,
                         .head_dim = size->d_model,
                         .causal = size->causal,
                         .dtype = parse_float_dtype(size->dtype)};
}

double attention_flops(const AttentionConfig& config) {
  const auto s = static_cast<double>(config.seq_len);
  return 4.0 * static_cast<double>(config.batch_size * config.heads) * s * s *
         static_cast<double>(config.head_dim) / (config.causal ? 2 : 1);
}

Json workload_json(const AttentionConfig& config) {
  return {{"batch_size", config.batch_size}, {"heads", config.heads},
          {"seq_len", config.seq_len},       {"d_model", config.head_dim},
          {"causal", config.causal},         {"dtype", info(config.dtype).name}};
}

std::string label(const AttentionWorkload& workload) {
  const AttentionConfig& config = workload.config;
  const bool two_pass =
      config.backward == BackwardAlgorithm::two_pass && chooses_backward(workload.implementation);
  return fmt::format(
      "{} S={} d={} batch={}{} {}{}{}", workload.implementation, config.seq_len, config.head_dim,
      config.batch_size, config.heads > 1 ? fmt::format(" heads={}", config.heads) : "",
      info(config.dtype).name, config.causal ? " causal" : "", two_pass ? " two-pass" : "");
}

}  // namespace ridgeline
