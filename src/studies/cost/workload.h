// What the cost study counts: products, attention, parts of a decoder layer, whole models. Counts
// are those of the graphs that the other studies run.
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
#include "studies/gemm/workload.h"

namespace ridgeline {

enum class CostOp : uint8_t { gemm, gemv, attention, self_attention, mlp, layer, model };

// `whole`: a product, which has no phases.
enum class CostPhase : uint8_t { whole, prefill, decode, fwd_bwd, full_step };

struct CostOpInfo {
  CostOp op;
  std::string_view name;
  std::string_view summary;
  bool has_attention;  // which is computed by one of several forms
  std::vector<CostPhase> phases;
};
std::span<const CostOpInfo> cost_ops();
const CostOpInfo& info(CostOp op);
CostOp parse_cost_op(std::string_view name);  // throws a usage error that lists them

struct CostPhaseInfo {
  CostPhase phase;
  std::string_view name;
  std::string_view summary;
};
std::span<const CostPhaseInfo> cost_phases();  // without `whole`
std::string_view name(CostPhase phase);        // empty for `whole`
CostPhase parse_cost_phase(std::string_view name);

struct CostForm {
  AttentionForm form;
  std::string_view name;
  std::string_view summary;
};
std::span<const CostForm> cost_forms();
std::string_view cost_form_name(AttentionForm form);
AttentionForm parse_cost_form(std::string_view name);

// A Gemma-3 in the place of our own model.
struct CostGemma {
  Gemma3Config config;
  std::string word;  // as it was given: a size or a file
  int64_t batch_size = 1;
  int64_t context_length = 1024;
};
// Throws a usage error for a context that no model was made for.
std::vector<CostGemma> gemmas_of(const std::vector<std::string>& words,
                                 const std::vector<int64_t>& contexts, int64_t batch_size);

struct CostWorkload {
  CostOp op = CostOp::gemm;
  CostPhase phase = CostPhase::whole;
  AttentionForm form = AttentionForm::plain;
  DType dtype = DType::f32;
  GemmShape shape = {};          // of products
  TransformerConfig model = {};  // of all others; of a Gemma-3 its sizes
  std::optional<CostGemma> gemma = {};
  bool causal = false;  // of attention alone: in layers it always is
};

// The study's axes.
struct CostMatrix {
  std::vector<CostOp> ops = {};
  std::vector<CostPhase> phases = {CostPhase::prefill, CostPhase::decode};
  std::vector<AttentionForm> forms = {AttentionForm::plain, AttentionForm::fused};
  std::vector<DType> dtypes = {DType::f32};
  std::vector<int64_t> sizes = {256, 1024, 4096};  // of square products
  std::vector<GemmShape> shapes = {};              // of further ones; the op follows from them
  std::vector<TransformerConfig> models = {};
  std::vector<CostGemma> gemmas = {};  // of which whole models are counted
  bool causal = false;
};
// Phases that an op does not have are left out of it; throws a usage error where no op has one.
std::vector<CostWorkload> expand_matrix(const CostMatrix& matrix);

// What is counted, node by node. Products run one after the other with everything else, so that the
// sum over nodes of what bounds each is a time, too.
struct CountedWork {
  Cost total;
  double product_bytes = 0;  // of the nodes that multiply matrices, attention among them
  std::vector<Cost> nodes;   // that cost something
};
CountedWork count_work(const CostWorkload& workload);

// Of a model that writes text: its weights, and keys and values of its context.
struct CachedText {
  Bytes weights, cache;
  Gemma3TokenBytes per_token;  // of one sequence
  // The longest context with whose cache the weights fill no more than the memory, working memory
  // left aside; as long as the model may be used. 0: none.
  int64_t longest_context(Bytes memory) const;

  int64_t batch_size = 1;
  int64_t window = 0;  // 0: no layer slides
  int64_t most = 0;    // positions
};
// Empty for what is no prefill or decode of a whole model.
std::optional<CachedText> cached_text(const CostWorkload& workload);

Json workload_json(const CostWorkload& workload);
std::string label(
    const CostWorkload& workload);  // "layer decode small context=1024 batch=4 naive bf16"

// Flags that give this workload alone, behind "ridgeline cost".
std::string to_command(const CostWorkload& workload);

inline constexpr const char* kCostConvention =
    "MACs are those of matrix products; FLOPs are two for each of them and one or a few for every "
    "element of everything else; bytes are every operand of every node, read and written once, as "
    "by "
    "a program that fuses nothing; those of products alone are the least where all else is fused "
    "into them";

}  // namespace ridgeline
