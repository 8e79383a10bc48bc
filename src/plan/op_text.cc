#include "plan/op_text.h"

#include <fmt/format.h>

#include <array>

namespace ridgeline {

const char* element_name(DType dtype) {
  if (dtype == DType::bf16) return "bf16";
  if (dtype == DType::f16) return "fp16";
  if (dtype == DType::i32) return "int";
  if (dtype == DType::boolean) return "boolean";
  return "float";  // whatever is stored as fp32
}

const char* fold_name(Op op) {
  return op == Op::max ? "Max" : "Sum";
}

namespace {

// "exponential({0})", or the expression of the row.
std::string text_of(const PointwiseRow& row) {
  static constexpr std::array kOperands = {"{0}", "{0}, {1}", "{0}, {1}, {2}"};
  if (!row.says.expression.empty()) return std::string(row.says.expression);
  return fmt::format("{}({})", row.function(), kOperands[static_cast<size_t>(row.inputs() - 1)]);
}

}  // namespace

FusedOp fused_op(Op op) {
  static const auto kTexts = [] {
    std::array<std::string, kOpCount> texts;
    for (const PointwiseRow& row : kPointwiseOps) texts[static_cast<size_t>(row.op)] = text_of(row);
    return texts;
  }();
  const PointwiseRow* row = pointwise_row(op);
  return {kTexts[static_cast<size_t>(op)], row == nullptr ? 1 : row->says.weight};
}

std::string pointwise_functions(KernelLanguage language) {
  const bool on_gpu = language == KernelLanguage::cuda;
  const char* qualifiers = on_gpu ? "__device__ __forceinline__" : "static inline";
  std::string text;
  for (const PointwiseRow& row : kPointwiseOps) {
    std::string_view body = on_gpu ? row.says.cuda : row.says.host;
    if (body.empty()) body = row.says.body;
    if (!body.empty())
      text += fmt::format("{} float {}({}) {{ {} }}\n", qualifiers, row.function(),
                          row.inputs() == 1 ? "float x" : "float x, float y", body);
  }
  return text;
}

std::string pointwise_operators() {
  std::string text;
  for (const PointwiseRow& row : kPointwiseOps) {
    if (row.says.expression.empty()) continue;
    static constexpr std::array kTypes = {"class X", "class X, class Y",
                                          "class X, class Y, class Z"};
    static constexpr std::array kParameters = {"X x", "X x, Y y", "X x, Y y, Z z"};
    const auto last = static_cast<size_t>(row.inputs() - 1);
    text += fmt::format("template <{}>\n__device__ __forceinline__ auto {}({}) {{ return {}; }}\n",
                        kTypes[last], row.function(), kParameters[last],
                        fmt::format(fmt::runtime(row.says.expression), "x", "y", "z"));
  }
  return text;
}

}  // namespace ridgeline
