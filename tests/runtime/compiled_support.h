// Runs a graph eagerly, compiled and in the fp64 interpreter, and shrinks what fails or disagrees.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/larger.h"
#include "passes/decompose.h"
#include "passes/flash.h"
#include "passes/simplify.h"
#include "runtime/compiled_executor.h"
#include "support/random_graph.h"
#include "support/run_eager.h"

namespace ridgeline::testing {

using Results = std::map<std::string, std::vector<double>>;

inline Results run_compiled(const Graph& graph, const InterpreterInputs& inputs, Device& device,
                            const PlanOptions& options = {}, int runs = 1) {
  const Plan plan = make_plan(graph, options);
  CompiledExecutor executor(graph, plan, device);
  for (const auto& [name, values] : inputs) upload(device, executor.input(name), values);
  executor.set_poison(true);
  executor.run_all();
  executor.set_poison(false);
  for (int run = 1; run < runs; ++run) executor.run_all();
  Results outputs;
  for (const Output& output : graph.outputs())
    outputs[output.name] = elements(device, executor.output(output.name));
  return outputs;
}

struct Tolerance {
  double unit;  // absolute and relative; 0: the same numbers

  static constexpr Tolerance none() { return {0.0}; }
  constexpr Tolerance(double of_unit) : unit(of_unit) {}
  Tolerance(DType dtype) : unit(dtype == DType::f32 ? 4e-5 : 12 * info(dtype).epsilon) {}
};

// Empty: all outputs agree; else the first that does not.
inline std::string disagreement(const Graph& graph, const Results& got, const Results& expected,
                                Tolerance tolerance) {
  for (const Output& output : graph.outputs()) {
    const auto& a = got.at(output.name);
    const auto& b = expected.at(output.name);
    if (a.size() != b.size()) return output.name + " has another size";
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      if (!std::isfinite(b[i]) || !(std::abs(a[i] - b[i]) <= tolerance.unit * (1 + std::abs(b[i]))))
        return output.name + "[" + std::to_string(i) + "] is " + std::to_string(a[i]) + ", not " +
               std::to_string(b[i]);
    }
  }
  return {};
}

inline Results interpreted(const Graph& graph, const InterpreterInputs& inputs) {
  const auto values = interpret(graph, inputs, {.round_to_dtype = true});
  Results results;
  for (const Output& output : graph.outputs())
    results[output.name] = values[graph.index(output.value)];
  return results;
}

// Empty: compiled, eager and the interpreter agree; else who does not, or what was thrown.
inline std::string fault(const Graph& graph, const InterpreterInputs& inputs, Tolerance tolerance,
                         Device& device, const PlanOptions& options = {}) {
  try {
    const Results compiled = run_compiled(graph, inputs, device, options);
    const std::string against_oracle =
        disagreement(graph, compiled, interpreted(graph, inputs), tolerance);
    if (!against_oracle.empty()) return "against the oracle: " + against_oracle;
    const std::string against_eager =
        disagreement(graph, compiled, run_eager(graph, inputs, device), tolerance);
    return against_eager.empty() ? "" : "against eager: " + against_eager;
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Rows, columns and all, by one kernel or several, compiled, eagerly and in the interpreter.
inline void expect_maxima_keep_nan(Device& device) {
  constexpr int64_t kRows = 700, kColumns = 70;
  for (DType dtype : {DType::f32, DType::bf16}) {
    Graph graph;
    const Tensor x = input(graph, "x", {dtype, {kRows, kColumns}});
    const Tensor y = input(graph, "y", {dtype, {kRows, kColumns}});
    graph.mark_output("rows", max(x * y, {1}).value());
    graph.mark_output("columns", max(x * y, {0}).value());
    graph.mark_output("all", max(x, {0, 1}).value());
    graph.mark_output("maximum", maximum(x, y).value());
    graph.mark_output("other_maximum", maximum(y, x).value());
    const auto count = static_cast<size_t>(kRows * kColumns);
    for (size_t place : {size_t{0}, size_t{69}, count / 2 + 17, count - 1}) {
      InterpreterInputs inputs{{"x", std::vector<double>(count, 0.5)},
                               {"y", std::vector<double>(count, 0.25)}};
      inputs["x"][place] = std::nan("");
      const std::vector<std::pair<const char*, Results>> paths = {
          {"compiled", run_compiled(graph, inputs, device)},
          {"eager", run_eager(graph, inputs, device)},
          {"interpreter", interpreted(graph, inputs)}};
      for (const auto& [path, results] : paths)
        for (const Output& output : graph.outputs()) {
          const std::vector<double>& values = results.at(output.name);
          EXPECT_EQ(std::count_if(values.begin(), values.end(), [](double v) { return v != v; }), 1)
              << path << ", " << output.name << " in " << info(dtype).name << ", NaN at " << place;
        }
    }
  }
}

// The part of a graph that the values `wanted` need, as a graph of its own with them as outputs.
// Nodes keep their order and stages; `cut` becomes an input instead of what it was computed from.
struct SmallGraph {
  Graph graph;
  InterpreterInputs inputs;
};
inline SmallGraph part_of_graph(const Graph& graph, const InterpreterInputs& inputs,
                                const std::vector<Value>& wanted, std::optional<Value> cut) {
  std::vector<bool> needed(graph.nodes().size());
  for (Value value : wanted) needed[value.node] = true;
  for (size_t i = graph.nodes().size(); i-- > 0;)
    if (needed[i] && !(cut && cut->node == i))
      for (Value input : graph.nodes()[i].inputs) needed[input.node] = true;
  SmallGraph part;
  std::vector<Value> became(graph.value_count());
  std::vector<std::vector<double>> values;
  if (cut) values = interpret(graph, inputs, {.round_to_dtype = true});
  const std::vector<Stage> stages = graph.stages();
  for (uint32_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    for (size_t stage = 1; stage < stages.size(); ++stage)
      if (stages[stage].begin == i) part.graph.begin_stage(stages[stage].name);
    if (!needed[i]) continue;
    if (node.op == Op::input || (cut && cut->node == i)) {
      const std::string name = node.op == Op::input ? node.name : "cut" + std::to_string(i);
      became[node.first_value] = part.graph.input({.name = name}, node.outputs[0]);
      part.inputs[name] = node.op == Op::input ? inputs.at(node.name) : values[node.first_value];
      continue;
    }
    std::vector<Value> operands;
    for (Value input : node.inputs) operands.push_back(became[graph.index(input)]);
    const Value added = part.graph.add(node.op, operands, node.attributes);
    for (uint32_t output = 0; output < node.outputs.size(); ++output)
      became[node.first_value + output] = {added.node, output};
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    part.graph.mark_output("out" + std::to_string(i), became[graph.index(wanted[i])]);
  verify(part.graph);
  return part;
}

// Drops outputs, moves outputs towards the inputs, and turns values into inputs, as long as it
// still fails.
template <class Fails>
SmallGraph shrink(SmallGraph failing, const Fails& fails) {
  const auto outputs_of = [](const Graph& graph) {
    std::vector<Value> wanted;
    for (const Output& output : graph.outputs()) wanted.push_back(output.value);
    return wanted;
  };
  const auto try_part = [&](const std::vector<Value>& wanted, std::optional<Value> cut) {
    if (wanted.empty()) return false;
    SmallGraph part;
    try {
      part = part_of_graph(failing.graph, failing.inputs, wanted, cut);
    } catch (const Error&) {
      return false;  // not a graph
    }
    const size_t before = failing.graph.nodes().size() + 2 * failing.graph.outputs().size();
    if (part.graph.nodes().size() + 2 * part.graph.outputs().size() >= before) return false;
    if (!fails(part)) return false;
    failing = std::move(part);
    return true;
  };
  bool shrinks = true;
  while (shrinks) {
    shrinks = false;
    const std::vector<Value> wanted = outputs_of(failing.graph);
    for (size_t i = 0; i < wanted.size() && !shrinks; ++i) {
      std::vector<Value> fewer = wanted;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      shrinks = try_part(fewer, std::nullopt);
      for (Value input : failing.graph.node(wanted[i]).inputs) {
        if (shrinks) break;
        std::vector<Value> earlier = wanted;
        earlier[i] = input;
        shrinks = try_part(earlier, std::nullopt);
      }
    }
    for (uint32_t i = 0; i < failing.graph.nodes().size() && !shrinks; ++i) {
      const Node& node = failing.graph.nodes()[i];
      if (!node.inputs.empty() && node.outputs.size() == 1) shrinks = try_part(wanted, Value{i, 0});
    }
  }
  return failing;
}

inline void expect_agreement(RandomGraph made, Tolerance tolerance, uint64_t seed, Device& device,
                             const PlanOptions& options = {}) {
  const std::string problem = fault(made.graph, made.inputs, tolerance, device, options);
  if (problem.empty()) return;
  const SmallGraph small =
      shrink({std::move(made.graph), std::move(made.inputs)}, [&](const SmallGraph& part) {
        return !fault(part.graph, part.inputs, tolerance, device, options).empty();
      });
  std::string explained;
  try {
    explained = explain(small.graph, make_plan(small.graph, options));
  } catch (const std::exception&) {
    explained = "there is no plan";
  }
  FAIL() << "seed " << seed << ": " << problem
         << "\nshrunk: " << fault(small.graph, small.inputs, tolerance, device, options) << "\n"
         << to_text(small.graph) << explained;
}

// Graphs made from seeds. Kernels of many are compiled in one go, which starts fewer compilers.
template <class Make>
void expect_agreement_of_many(uint64_t first, uint64_t count, Tolerance tolerance, Device& device,
                              const Make& make, const PlanOptions& options = {}) {
  constexpr uint64_t kTogether = 100;
  for (uint64_t begin = first; begin < first + count; begin += kTogether) {
    const uint64_t end = std::min(begin + kTogether, first + count);
    std::vector<Plan> plans;
    std::vector<const FusedKernel*> kernels;
    // Whose fault an error is shows when the graph is run.
    const auto attempt = [](const auto& work) {
      try {
        work();
      } catch (const std::exception&) {
      }
    };
    for (uint64_t seed = begin; seed < end; ++seed)
      attempt([&] { plans.push_back(make_plan(make(seed).graph, options)); });
    for (const Plan& plan : plans)
      for (const PlannedKernel& kernel : plan.kernels)
        if (kernel.group.kind != GroupKind::library) kernels.push_back(&kernel.group.kernel);
    attempt([&] { device.compile(kernels); });
    for (uint64_t seed = begin; seed < end; ++seed) {
      expect_agreement(make(seed), tolerance, seed, device, options);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// With softmax in its parts, there is more to fuse; and some kernels may run beside others.
inline void expect_agreement_after_passes(uint64_t first, uint64_t count, Device& device) {
  const auto make = [](uint64_t seed) {
    RandomGraph made = RandomGraphMaker(seed).make(30);
    made.graph = simplify(decompose(flash(made.graph)));
    return made;
  };
  expect_agreement_of_many(first, count, DType::f32, device, make,
                           {.overlap = true, .early_updates = true});
}

}  // namespace ridgeline::testing
