#include "plan/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/float16.h"
#include "plan/op_text.h"

namespace ridgeline {
namespace {

using Kind = FusedStep::Kind;

constexpr int kWorthKeeping = 4;  // weight of an op that is not repeated in the next pass

// Whether the result of an op is as narrow as its operands, without rounding.
bool keeps_width(Op op) {
  return op == Op::negate || op == Op::maximum || op == Op::where || op == Op::max;
}

// What the passes need, from their ends backwards; a kept value is computed in the first pass that
// needs it.
void fill_passes(const FusedKernel& kernel, Program& program) {
  std::vector<bool> done(kernel.steps.size());  // kept by an earlier pass
  for (size_t number = 0; number < program.passes.size(); ++number) {
    ColumnPass& pass = program.passes[number];
    std::vector<bool> needed(kernel.steps.size());
    for (uint32_t fold : pass.folds) needed[kernel.steps[fold].inputs[0]] = true;
    for (uint32_t result : pass.stores) needed[kernel.results[result].step] = true;
    for (size_t i = kernel.steps.size(); i-- > 0;) {
      const FusedStep& step = kernel.steps[i];
      if (!needed[i] || program.steps[i].per_row || step.kind != Kind::compute || done[i]) continue;
      for (uint32_t input : step.inputs) needed[input] = true;
    }
    for (uint32_t i = 0; i < kernel.steps.size(); ++i) {
      if (!needed[i] || program.steps[i].per_row) continue;
      if (done[i]) {
        pass.kept.push_back(i);
        continue;
      }
      if (kernel.steps[i].kind == Kind::load) pass.loads.push_back(i);
      if (kernel.steps[i].kind == Kind::compute) pass.computes.push_back(i);
    }
    for (uint32_t i : pass.computes)
      if (program.steps[i].is_kept) done[i] = true;
  }
}

std::vector<int> passes_that_use(const FusedKernel& kernel, const Program& program) {
  std::vector<int> uses(kernel.steps.size());
  for (const ColumnPass& pass : program.passes)
    for (const auto* list : {&pass.loads, &pass.computes})
      for (uint32_t i : *list) ++uses[i];
  return uses;
}

}  // namespace

std::string row_offset(const Program& program, const std::string& operand) {
  std::string text;
  for (size_t axis = 0; axis < program.walk.sizes.size(); ++axis)
    text += fmt::format("{}at{} * {}.rows[{}]", axis ? " + " : "", axis, operand, axis);
  return text;
}

float as_stored(const FusedStep& constant) {
  const auto value = static_cast<float>(constant.constant);
  if (constant.dtype == DType::bf16) return bf16_to_float(float_to_bf16(value));
  if (constant.dtype == DType::f16) return f16_to_float(float_to_f16(value));
  if (constant.dtype == DType::boolean) return constant.constant != 0 ? 1.0f : 0.0f;
  return value;
}

std::string rounded(std::string text, const FusedStep& step) {
  if (keeps_width(step.op)) return text;
  if (step.dtype == DType::bf16) return fmt::format("round_bf16({})", text);
  if (step.dtype == DType::f16) return fmt::format("round_fp16({})", text);
  return text;
}

Program make_program(const FusedKernel& kernel, bool keeps) {
  Program program;
  program.walk = make_walk(kernel);
  const bool one_column = program.walk.columns == 1;
  const bool is_column_kernel = kernel.kind == FusedKind::column;
  int deepest = 0;
  for (size_t i = 0; i < kernel.steps.size(); ++i) {
    const FusedStep& step = kernel.steps[i];
    ProgramStep facts;
    const auto& word = step.kind == Kind::load       ? "load"
                       : step.kind == Kind::constant ? "constant"
                                                     : info(step.op).name;
    facts.name = fmt::format("{}_{}", std::string_view(word), i);
    facts.type = is_floating(step.dtype) ? "float" : "int";
    facts.per_row = true;
    for (uint32_t input : step.inputs) {
      facts.per_row = facts.per_row && program.steps[input].per_row;
      facts.depth = std::max(facts.depth, program.steps[input].depth);
    }
    if (step.kind == Kind::load)
      facts.per_row = one_column || program.walk.inputs[step.operand].column == 0;
    if (step.kind == Kind::constant) program.constants.push_back(as_stored(step));
    if (step.kind == Kind::fold) {
      facts.per_row = true;
      facts.depth += 1;
    }
    deepest = std::max(deepest, facts.depth);
    program.steps.push_back(std::move(facts));
  }
  program.passes.resize(static_cast<size_t>(is_column_kernel ? 1 : deepest + 1));
  for (uint32_t i = 0; i < kernel.steps.size(); ++i) {
    const ProgramStep& facts = program.steps[i];
    const Kind kind = kernel.steps[i].kind;
    if (kind == Kind::fold) program.passes[static_cast<size_t>(facts.depth - 1)].folds.push_back(i);
    if (kind == Kind::load && facts.per_row) program.row_loads.push_back(i);
    if (kind != Kind::compute || !facts.per_row) continue;
    auto& list = facts.depth == 0
                     ? program.row_computes
                     : program.passes[static_cast<size_t>(facts.depth - 1)].row_computes;
    list.push_back(i);
  }
  if (!is_column_kernel)
    for (uint32_t i = 0; i < kernel.results.size(); ++i) {
      const bool per_row = one_column || program.walk.results[i].column == 0;
      (per_row ? program.row_stores : program.passes.back().stores).push_back(i);
    }
  fill_passes(kernel, program);
  if (keeps && program.passes.size() > 1) {
    const std::vector<int> uses = passes_that_use(kernel, program);
    for (uint32_t i = 0; i < kernel.steps.size(); ++i) {
      const FusedStep& step = kernel.steps[i];
      if (step.kind != Kind::compute || uses[i] < 2 || fused_op(step.op).weight < kWorthKeeping)
        continue;
      program.steps[i].is_kept = true;
      program.kept.push_back(i);
    }
    for (ColumnPass& pass : program.passes) pass.loads.clear(), pass.computes.clear();
    fill_passes(kernel, program);
  }
  return program;
}

std::string expression(const FusedKernel& kernel, const Program& program, uint32_t index) {
  const FusedStep& step = kernel.steps[index];
  const auto name = [&](size_t i) -> const std::string& {
    return program.steps[step.inputs[i]].name;
  };
  if (step.op == Op::cast) {
    const DType from = kernel.steps[step.inputs[0]].dtype;
    if (step.dtype == DType::boolean) return fmt::format("{} != 0", name(0));
    if (step.dtype == DType::i32)
      return is_floating(from) ? fmt::format("to_int({})", name(0)) : name(0);
    const std::string wide = is_floating(from) ? name(0) : fmt::format("(float){}", name(0));
    return rounded(wide, step);
  }
  std::string text(fused_op(step.op).text);
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const std::string place = fmt::format("{{{}}}", i);
    for (size_t at = text.find(place); at != text.npos; at = text.find(place, at))
      text.replace(at, place.size(), name(i));
  }
  return rounded(std::move(text), step);
}

}  // namespace ridgeline
