// Graphs as text, for people and for tests.
#include <fmt/format.h>

#include "graph/score_function.h"

namespace ridgeline {

std::string attributes_text(const Node& node) {
  struct Print {
    std::string operator()(std::monostate) const { return {}; }
    std::string operator()(const InputInfo& input) const {
      std::string text = input.name;
      if (input.role == Role::data) return text;
      text += fmt::format(", {}", info(input.role).name);
      for (const InputPart& part : input.parts)
        text += fmt::format("{} {} rows of {}", &part == input.parts.data() ? ":" : ",", part.rows,
                            part.parameter);
      if (input.ranks > 1) text += fmt::format(", one of {} shards", input.ranks);
      return text;
    }
    std::string operator()(const Again&) const { return "again"; }
    std::string operator()(const RowCount& rows) const { return fmt::format("{} rows", rows.count); }
    std::string operator()(const Scalar& scalar) const { return fmt::format("{:a}", scalar.value); }
    std::string operator()(const Axes& axes) const { return to_string(axes.axes); }
    std::string operator()(const Range& range) const {
      return fmt::format("axis {} [{}, {})", range.axis, range.begin, range.end);
    }
    std::string operator()(const AttentionSpec& spec) const {
      const AttentionMask& mask = spec.mask;
      const bool bottom_right = mask.alignment == AttentionMask::Alignment::bottom_right;
      std::string text =
          fmt::format("scale {:a}{}{}{}{}", spec.scale, mask.causal ? ", causal" : "",
                      bottom_right ? ", bottom right" : "",
                      mask.window > 0 ? fmt::format(", window {}", mask.window) : "",
                      spec.backward == BackwardAlgorithm::single_pass ? ", single pass" : "");
      if (spec.cached) text += ", cached";
      if (spec.function != nullptr) text += fmt::format(", f: {}", spec.function->text());
      if (spec.operand_gradients != 0)
        text += fmt::format(", gradients of operands {:b}", spec.operand_gradients);
      if (spec.diagonal_gradients != 0)
        text += fmt::format(", along diagonals {:b}", spec.diagonal_gradients);
      return text;
    }
    std::string operator()(const AdamWSpec& spec) const {
      return fmt::format("{}, betas {:a} {:a}, eps {:a}, decay {:a}{}{}{}",
                         spec.variant == AdamWVariant::cs336 ? "cs336" : "pytorch", spec.beta1,
                         spec.beta2, spec.epsilon, spec.weight_decay, spec.scaled ? ", scaled" : "",
                         spec.skips ? ", skips" : "", spec.copied ? ", copied" : "");
    }
    std::string operator()(const Ranks& ranks) const {
      return fmt::format("{} ranks{}{}", ranks.count, ranks.purpose.empty() ? "" : ", ",
                         ranks.purpose);
    }
    std::string operator()(const LossScaleSpec& spec) const {
      return fmt::format("doubled after {}", spec.growth_interval);
    }
  };
  return std::visit(Print{}, node.attributes.detail);
}

std::string to_text(const Graph& graph) {
  std::string text;
  const std::vector<Stage> stages = graph.stages();
  for (const Stage& stage : stages) {
    if (stages.size() > 1) text += fmt::format("{}:\n", stage.name);
    for (uint32_t number = stage.begin; number < stage.end; ++number) {
      const Node& node = graph.nodes()[number];
      std::string arguments;
      for (Value input : node.inputs)
        arguments += fmt::format("{}%{}", arguments.empty() ? "" : ", ", graph.index(input));
      if (node.op == Op::constant)
        arguments = fmt::format("{:g}", std::get<Scalar>(node.attributes.detail).value);
      else if (const std::string detail = attributes_text(node); !detail.empty())
        arguments += (arguments.empty() ? "" : ", ") + detail;
      std::string types;
      for (const TensorType& type : node.outputs)
        types += (types.empty() ? "" : ", ") + to_string(type);
      text += fmt::format("%{} {} = {}({}) : {}\n", node.first_value, graph.name({number, 0}),
                          info(node.op).name, arguments, types);
    }
  }
  for (const Output& output : graph.outputs())
    text += fmt::format("output {} = %{}\n", output.name, graph.index(output.value));
  return text;
}

}  // namespace ridgeline
