#include "profile/category.h"

#include <string>

#include "base/printable.h"
#include "graph/scope.h"

namespace ridgeline {
namespace {

struct NamePart {
  std::string_view part;  // in lower case
  Category category;
};

// The first row whose part occurs in a name decides, so specific parts come first: attention by
// CUTLASS is not a gemm, and a Triton kernel named after a softmax counts as one.
constexpr NamePart kNameParts[] = {
    {"nccl", Category::communication},
    {"memcpy", Category::memory},
    {"memset", Category::memory},
    {"flash", Category::attention},
    {"fmha", Category::attention},
    {"sdpa", Category::attention},
    {"attention", Category::attention},
    {"softmax", Category::softmax},
    {"layer_norm", Category::norm},
    {"layernorm", Category::norm},
    {"rms_norm", Category::norm},
    {"rmsnorm", Category::norm},
    {"nvjet", Category::gemm},
    {"splitkreduce", Category::gemm},
    {"gemm", Category::gemm},
    {"gemv", Category::gemm},
    {"cutlass", Category::gemm},
    {"xmma", Category::gemm},
    {"cublas", Category::gemm},
    {"triton_tem", Category::gemm},
    {"triton_red", Category::norm},
    {"triton_per", Category::norm},
    {"triton_poi", Category::elementwise},
    {"cpp_fused", Category::elementwise},
    {"catarray", Category::memory},
    {"multi_tensor_apply", Category::elementwise},
    {"fillfunctor", Category::memory},
    {"masked_fill", Category::elementwise},
    {"copy", Category::memory},
    {"fill", Category::memory},
    {"elementwise", Category::elementwise},
    // PyTorch ops on a CPU.
    {"aten::mm", Category::gemm},
    {"aten::bmm", Category::gemm},
    {"aten::addmm", Category::gemm},
    {"aten::baddbmm", Category::gemm},
    {"aten::matmul", Category::gemm},
    {"aten::linear", Category::gemm},
    {"aten::cat", Category::memory},
    {"aten::clone", Category::memory},
    {"aten::zero", Category::memory},
    {"aten::add", Category::elementwise},
    {"aten::sub", Category::elementwise},
    {"aten::mul", Category::elementwise},
    {"aten::div", Category::elementwise},
    {"aten::neg", Category::elementwise},
    {"aten::pow", Category::elementwise},
    {"aten::rsqrt", Category::elementwise},
    {"aten::silu", Category::elementwise},
    {"aten::gelu", Category::elementwise},
    {"aten::sigmoid", Category::elementwise},
    {"_adamw_", Category::elementwise},
};

Category category_of_fold(std::string_view scope) {
  const std::string_view leaf = scope_leaf(scope);
  if (leaf == kSoftmaxScope) return Category::softmax;
  if (leaf == kNormScope) return Category::norm;
  return Category::other;
}

}  // namespace

std::string_view name(Category category) {
  static constexpr std::string_view kNames[] = {
      "gemm", "attention", "softmax", "norm", "elementwise", "memory", "communication", "other"};
  static_assert(std::size(kNames) == kCategories.size());
  return kNames[static_cast<size_t>(category)];
}

Category category_of(const Graph& graph, const Node& node) {
  switch (info(node.op).kind) {
    case OpClass::pointwise:
      return Category::elementwise;
    case OpClass::row:
      return Category::softmax;
    case OpClass::reduction:
      return category_of_fold(graph.scope_path(node));
    case OpClass::matmul:
      return Category::gemm;
    case OpClass::attention:
      return Category::attention;
    case OpClass::indexed:
      return Category::other;
    case OpClass::multi_tensor:
      return node.op == Op::adamw_update ? Category::elementwise : Category::other;
    case OpClass::collective:
      return Category::communication;
    case OpClass::leaf:
    case OpClass::cache:
    case OpClass::view:
    case OpClass::assembly:
      return Category::memory;
  }
  return Category::other;
}

Category category_of(const Graph& graph, const Group& group) {
  if (group.kind == GroupKind::library) return category_of(graph, graph.nodes()[group.node]);
  if (group.kernel.product) return Category::gemm;
  Category found = Category::memory;
  for (const FusedStep& step : group.kernel.steps) {
    if (step.kind == FusedStep::Kind::compute && found == Category::memory)
      found = Category::elementwise;
    if (step.kind != FusedStep::Kind::fold) continue;
    const Category fold = category_of_fold(graph.scope_path(graph.node(step.value)));
    if (fold == Category::softmax) return fold;
    if (fold == Category::norm || found != Category::norm) found = fold;
  }
  return found;
}

Category category_of_name(std::string_view kernel) {
  const std::string lower = lower_case(kernel);
  for (const NamePart& row : kNameParts)
    if (lower.find(row.part) != std::string::npos) return row.category;
  return Category::other;
}

}  // namespace ridgeline
