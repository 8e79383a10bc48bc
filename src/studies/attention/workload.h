// What the attention study measures: sizes, implementations and presets.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compile/lower.h"
#include "measure/record.h"
#include "models/attention.h"
#include "runtime/device.h"

namespace ridgeline {

struct AttentionImplementation {
  std::string_view name;
  AttentionForm form;
  Mode mode;
  std::string_view summary;
};

// All of this build, in the order of tables.
const std::vector<AttentionImplementation>& attention_implementations();

// Throws a usage error that lists the known ones.
const AttentionImplementation& find_attention_implementation(std::string_view name);

struct AttentionWorkload {
  AttentionConfig config;
  std::string implementation;

  bool operator==(const AttentionWorkload&) const = default;
};

// The arguments of Executable, for our own implementations.
Trace attention_trace(const AttentionWorkload& workload);
CompileOptions attention_options(const AttentionWorkload& workload);
// Whether there is a plan to explain.
bool is_planned(const AttentionWorkload& workload);

// Why no kernel of this program supports the problem in this form; empty if one does. A refused
// problem needs no run and no probe.
std::string refusal(const AttentionConfig& config, AttentionForm form);

// The study's axes; every combination is a row.
struct AttentionMatrix {
  std::vector<int64_t> batch_sizes = {8};
  std::vector<int64_t> head_dims = {16, 32, 64, 128};
  std::vector<int64_t> seq_lens = {256, 1024, 4096, 8192, 16384};
  std::vector<int64_t> heads = {1};
  std::vector<std::string> dtypes = {"fp32"};
  std::vector<std::string> implementations = {"naive", "compiled", "flash"};
  bool causal = false;
  // One row each, for implementations that have a choice.
  std::vector<BackwardAlgorithm> backward = {BackwardAlgorithm::single_pass};
};

struct AttentionPreset {
  std::string_view name;
  std::string_view summary;
  std::vector<AttentionMatrix> matrices;
  bool try_beyond_budget = true;  // see AttentionStudyOptions
};
const std::vector<AttentionPreset>& attention_presets();
// Throws a usage error that lists them.
const AttentionPreset& find_attention_preset(std::string_view name);

// Varies the implementation fastest, then length, width, heads, batch size and dtype.
std::vector<AttentionWorkload> expand_matrix(const AttentionMatrix& matrix);

std::string_view name(BackwardAlgorithm algorithm);                 // "two-pass", "single-pass"
BackwardAlgorithm parse_backward_algorithm(std::string_view text);  // throws a usage error
// The given algorithm, or the device's default if `given` is empty. A single pass adds by atomics
// on a GPU, in no fixed order: a deterministic device defaults to two passes and rejects a single
// one with a usage error.
BackwardAlgorithm backward_algorithm(std::string_view given, const DeviceFacts& facts);
std::vector<BackwardAlgorithm> backward_algorithms(const std::vector<std::string>& given,
                                                   const DeviceFacts& facts);  // at least one
// Whether an implementation has both backward algorithms; a peer never does.
bool chooses_backward(std::string_view implementation);
// The algorithms that get rows: only the first if the implementation has no choice.
std::vector<BackwardAlgorithm> backward_rows(const std::string& implementation,
                                             const std::vector<BackwardAlgorithm>& algorithms);

// The sizes of an attention record; empty if they are missing or too large to count. Throws a usage
// error for an unknown dtype.
std::optional<AttentionConfig> attention_config_of(const Record& record);

// Of forward: 4 B H S S d, halved if causal; backward has 2.5 times as many.
double attention_flops(const AttentionConfig& config);
inline constexpr double kBackwardOverForward = 2.5;

// Identifies the problem in records, whatever the implementation.
Json workload_json(const AttentionConfig& config);

// "naive S=4096 d=64 batch=8 fp32 causal", with "two-pass" where backward takes two passes.
std::string label(const AttentionWorkload& workload);

}  // namespace ridgeline
