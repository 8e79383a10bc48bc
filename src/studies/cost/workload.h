// What the cost study counts: products, attention, parts of a decoder layer, whole models, all from
// the graphs that the other studies run.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cost/cost.h"
#include "models/gemma3_cache.h"
#include "models/transformer_lm.h"
#include "studies/choices.h"
#include "studies/gemm/workload.h"

namespace ridgeline {

enum class CostOp : uint8_t { gemm, gemv, attention, self_attention, mlp, layer, model };

// `whole` stands for a product, which has no phases.
enum class CostPhase : uint8_t { whole, prefill, decode, fwd_bwd, full_step };

struct CostOpInfo {
  CostOp op;
  std::string_view name;
  std::string_view summary;
  bool has_attention;  // in one of several forms
  std::span<const CostPhase> phases;
};
extern const Choices<CostOpInfo> kCostOps;
inline const CostOpInfo& info(CostOp op) {
  return kCostOps[op];
}

struct CostPhaseInfo {
  CostPhase phase;
  std::string_view name;
  std::string_view summary;
};
extern const Choices<CostPhaseInfo> kCostPhases;  // without `whole`
std::string_view name(CostPhase phase);           // empty for `whole`

struct CostForm {
  AttentionForm form;
  std::string_view name;
  std::string_view summary;
};
extern const Choices<CostForm> kCostForms;

// A Gemma-3, counted instead of our own model.
struct CostGemma {
  Gemma3Config config;
  std::string word;  // as given: a size or a file
  int64_t batch_size = 1;
  int64_t context_length = 1024;
};
// Throws a usage error for a context beyond a model's positions.
std::vector<CostGemma> gemmas_of(const std::vector<std::string>& words,
                                 const std::vector<int64_t>& contexts, int64_t batch_size);

struct CostWorkload {
  CostOp op = CostOp::gemm;
  CostPhase phase = CostPhase::whole;
  AttentionForm form = AttentionForm::plain;
  DType dtype = DType::f32;
  GemmShape shape = {};          // of products
  TransformerConfig model = {};  // of all other ops; a Gemma-3's sizes if there is one
  std::optional<CostGemma> gemma = {};
  bool causal = false;  // of the attention op; layers always are causal
};

// The study's axes.
struct CostMatrix {
  std::vector<CostOp> ops = {};
  std::vector<CostPhase> phases = {CostPhase::prefill, CostPhase::decode};
  std::vector<AttentionForm> forms = {AttentionForm::plain, AttentionForm::fused};
  std::vector<DType> dtypes = {DType::f32};
  std::vector<int64_t> sizes = {256, 1024, 4096};  // of square products
  std::vector<GemmShape> shapes = {};              // of further products: N = 1 is a gemv
  std::vector<TransformerConfig> models = {};
  std::vector<CostGemma> gemmas = {};  // counted as whole models only
  bool causal = false;
};
// Skips phases that an op does not have. Throws a usage error for a phase that no op has.
std::vector<CostWorkload> expand_matrix(const CostMatrix& matrix);

// The cost of a workload and of each node. Nodes run one after the other, so that the sum of their
// least times is a bound for a program that fuses nothing.
struct CountedWork {
  Cost total;
  double product_bytes = 0;  // of nodes with matrix products, including attention
  std::vector<Cost> nodes;   // without those that move no bytes
};
CountedWork count_work(const CostWorkload& workload);

// The memory of a model that generates text: its weights, and the cache of its context.
struct CachedText {
  Bytes weights, cache;
  Gemma3TokenBytes per_token;  // of one sequence
  // The longest context whose cache fits beside the weights, without working memory, up to the
  // model's positions; 0 if none fits.
  int64_t longest_context(Bytes memory) const;

  int64_t batch_size = 1;
  int64_t window = 0;  // 0: no layer has a sliding window
  int64_t most = 0;    // positions
};
// Only for prefill and decode of a whole model; else empty.
std::optional<CachedText> cached_text(const CostWorkload& workload);

Json workload_json(const CostWorkload& workload);
// "layer decode small context=1024 batch=4 naive bf16".
std::string label(const CostWorkload& workload);

// The words after "ridgeline cost" that select only this workload.
std::string to_command(const CostWorkload& workload);

inline constexpr const char* kCostConvention =
    "MACs are those of matrix products; FLOPs are two for each of them and one or a few for every "
    "element of everything else; bytes are every operand of every node, read and written once, as "
    "by "
    "a program that fuses nothing; those of products alone are the least where all else is fused "
    "into them";

}  // namespace ridgeline
