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

// All that this build carries, in the order of tables.
const std::vector<AttentionImplementation>& attention_implementations();

// Throws a usage error that lists the known ones.
const AttentionImplementation& find_attention_implementation(std::string_view name);

struct AttentionWorkload {
  AttentionConfig config;
  std::string implementation;
};

// Of an implementation of our own: what the front door takes.
Trace attention_trace(const AttentionWorkload& workload);
CompileOptions attention_options(const AttentionWorkload& workload);
// Whether there is a plan to explain.
bool is_planned(const AttentionWorkload& workload);

// Why no kernel of this program serves the problem in this form; empty: one does. What has a
// refusal needs no run and no probe.
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
  // Of implementations that have a choice: one row each.
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

// In the order of growing memory per implementation: dtype, then width, then length.
std::vector<AttentionWorkload> expand_matrix(const AttentionMatrix& matrix);

std::string_view name(BackwardAlgorithm algorithm);                 // "two-pass", "single-pass"
BackwardAlgorithm parse_backward_algorithm(std::string_view text);  // throws a usage error
// The algorithm given, or what the device takes when none is (empty). A single pass adds by atomics
// on a GPU, in whatever order they come: one that is deterministic takes two passes, and refuses
// the other with a usage error.
BackwardAlgorithm backward_algorithm(std::string_view given, const DeviceFacts& facts);
std::vector<BackwardAlgorithm> backward_algorithms(const std::vector<std::string>& given,
                                                   const DeviceFacts& facts);  // at least one
// Whether an implementation, ours or a peer's, computes its gradient by the algorithm asked for.
bool chooses_backward(std::string_view implementation);
// The algorithms that make rows of their own: the first alone, where there is no choice.
std::vector<BackwardAlgorithm> backward_rows(const std::string& implementation,
                                             const std::vector<BackwardAlgorithm>& algorithms);

// The sizes of a record of this study; empty: it has none that can be counted. Throws a usage error
// for a dtype that there is not.
std::optional<AttentionConfig> attention_config_of(const Record& record);

// What identifies the problem in records, whatever the implementation.
Json workload_json(const AttentionConfig& config);

// "naive S=4096 d=64 batch=8 fp32 causal"; a backward in two passes is named, too.
std::string label(const AttentionWorkload& workload);

}  // namespace ridgeline
