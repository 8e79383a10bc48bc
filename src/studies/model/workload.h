// What the model study measures: sizes, context lengths, precisions, modes, and every combination.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "compile/ladder.h"
#include "models/transformer_lm.h"
#include "studies/choices.h"

namespace ridgeline {

enum class ModelPrecision : uint8_t { fp32, tf32, mixed, mixed_fp16 };

struct ModelPrecisionInfo {
  ModelPrecision precision;
  std::string_view name;
  DType products;  // the dtype of matrix products
  std::string_view summary;
  bool scales_loss = false;  // because gradients would underflow in this dtype
};
extern const Choices<ModelPrecisionInfo> kModelPrecisions;
inline const ModelPrecisionInfo& info(ModelPrecision precision) {
  return kModelPrecisions[precision];
}

struct ScenarioInfo {
  Scenario scenario;
  std::string_view name;    // as users write it: "fwd-bwd"
  std::string_view series;  // in records and CSV: "fwd_bwd"
  std::string_view summary;
};
extern const Choices<ScenarioInfo> kModelScenarios;
inline const ScenarioInfo& info(Scenario scenario) {
  return kModelScenarios[scenario];
}

struct ModelWorkload {
  TransformerConfig config;
  ModelPrecision precision = ModelPrecision::fp32;
  Mode mode = Mode::vanilla;
  std::string size = {};          // the named size before overrides
  int64_t micro_batches = 1;      // of a step, see TrainingOptions
  int64_t checkpoint_blocks = 0;  // see CompileOptions
};

// Sizes that replace those of a named model; 0: not replaced.
struct ModelOverrides {
  int64_t d_model = 0;
  int64_t d_ff = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t vocabulary = 0;

  bool any() const { return d_model + d_ff + layers + heads + vocabulary > 0; }
  bool all() const { return d_model && d_ff && layers && heads && vocabulary; }
};

// The study's axes; every combination is a row.
struct ModelMatrix {
  std::vector<std::string> sizes = {"small"};
  std::vector<int64_t> context_lengths = {128, 256, 512, 1024};
  int64_t batch_size = 4;
  std::vector<ModelPrecision> precisions = {ModelPrecision::fp32};
  std::vector<Mode> modes = {Mode::vanilla, Mode::compiled};
  int64_t micro_batches = 1;
  int64_t checkpoint_blocks = 0;
  // An overridden model is named "custom-small", or "custom" if nothing of the named size is left.
  ModelOverrides overrides = {};
};

// The modes of one model are consecutive, vanilla first. Throws a usage error for invalid sizes.
std::vector<ModelWorkload> expand_matrix(const ModelMatrix& matrix);

// What identifies the model in records, without the mode.
Json workload_json(const ModelWorkload& workload);

// "small context=512 batch=4 mixed, compiled".
std::string label(const ModelWorkload& workload);

// Parameters that products multiply with: all but the embedding, which is looked up.
double multiplied_parameters(const TransformerConfig& config);
// FLOPs of one forward pass by the convention of kModelFlops.
double model_forward_flops(const TransformerConfig& config);
inline constexpr const char* kModelFlops =
    "forward: 2 N FLOPs per token, N the parameters without the embedding table, which is looked "
    "up, and 4 layers context d_model for attention, not halved for its causal mask; backward "
    "twice "
    "that; the optimizer nothing; an FMA counts as two";

}  // namespace ridgeline
