#include "codegen/cuda_body.h"

#include <fmt/format.h>

#include <set>

#include "plan/op_text.h"

namespace ridgeline {

using Kind = FusedStep::Kind;

void CudaBody::emit_registers() {
  for (uint32_t step = 0; step < kernel_.steps.size(); ++step) {
    const uint32_t i = kernel_.steps[step].operand;
    if (kernel_.steps[step].kind == Kind::load && stays(step) && !kernel_.inputs[i].is_position)
      out_.line("Pack<{}, {}> pack{}[{}];", element_name(kernel_.inputs[i].dtype), shape_.pack, i,
                shape_.chunks);
  }
  for (uint32_t step : program_.kept)
    out_.line("float kept_{}[{}][{}];", program_.steps[step].name, shape_.chunks, shape_.pack);
}

void CudaBody::emit_row_loads() {
  for (uint32_t step : program_.row_loads) {
    const uint32_t i = kernel_.steps[step].operand;
    const std::string from = kernel_.inputs[i].is_position
                                 ? fmt::format("static_cast<int>(from{})", i)
                                 : fmt::format("widen(from{}[0])", i);
    out_.line("const {} {} = {};", program_.steps[step].type, program_.steps[step].name, from);
  }
}

void CudaBody::emit_row_steps(const std::vector<uint32_t>& computes) {
  for (uint32_t step : computes)
    out_.line("const {} {} = {};", program_.steps[step].type, program_.steps[step].name,
              expression(kernel_, program_, step));
}

// Packs at column c0. What stays in registers is loaded by the first pass that needs it.
void CudaBody::emit_loads(const ColumnPass& pass, std::vector<bool>& loaded) {
  std::set<uint32_t> paired;
  for (uint32_t step : pass.loads) {
    const uint32_t i = kernel_.steps[step].operand;
    if (kernel_.inputs[i].is_position || loaded[step]) continue;
    if (const auto pair = input_pair(i)) {
      if (!paired.insert(*pair).second) continue;
      out_.line("const Pack<{}, {}> pair{} = load_pack<{}>(from{} + 2 * c0);",
                element_name(kernel_.inputs[i].dtype), 2 * shape_.pack, *pair, 2 * shape_.pack,
                *pair);
      continue;
    }
    const std::string type =
        fmt::format("Pack<{}, {}>", element_name(kernel_.inputs[i].dtype), shape_.pack);
    const std::string pack = fmt::format("pack{}{}", i, stays(step) ? "[chunk]" : "");
    if (stays(step)) {
      loaded[step] = true;
    } else {
      out_.line("{} {};", type, pack);
    }
    if (program_.walk.inputs[i].column == 1) {
      out_.line("{} = load_pack<{}>(from{} + c0);", pack, shape_.pack, i);
    } else {
      out_.text("#pragma unroll\n");
      out_.line("for (int i = 0; i < {}; ++i)", shape_.pack);
      out_.line("  {}.at[i] = from{}[(c0 + i) * {}];", pack, i, input_step(i));
    }
  }
}

// The steps of a pass for element i of a pack, and its part in folds.
void CudaBody::emit_elements(const ColumnPass& pass, const std::string& fold_place) {
  for (uint32_t step : pass.loads) {
    const uint32_t i = kernel_.steps[step].operand;
    if (kernel_.inputs[i].is_position) {
      out_.line("const int {} = static_cast<int>(from{} + (c0 + i) * {});",
                program_.steps[step].name, i, input_step(i));
    } else if (const auto pair = input_pair(i)) {
      out_.line("const {} {} = widen(pair{}.at[2 * i + {}]);", program_.steps[step].type,
                program_.steps[step].name, *pair, *pair == i ? 0 : 1);
    } else {
      out_.line("const {} {} = widen(pack{}{}.at[i]);", program_.steps[step].type,
                program_.steps[step].name, i, stays(step) ? "[chunk]" : "");
    }
  }
  for (uint32_t step : pass.kept)
    out_.line("const float {0} = kept_{0}[chunk][i];", program_.steps[step].name);
  for (uint32_t step : pass.computes) {
    out_.line("const {} {} = {};", program_.steps[step].type, program_.steps[step].name,
              expression(kernel_, program_, step));
    if (program_.steps[step].is_kept)
      out_.line("kept_{0}[chunk][i] = {0};", program_.steps[step].name);
  }
  for (uint32_t fold : pass.folds)
    out_.line("total_{0}{1} = {2}::fold(total_{0}{1}, {3});", fold, fold_place,
              fold_name(kernel_.steps[fold].op),
              program_.steps[kernel_.steps[fold].inputs[0]].name);
  for (uint32_t result : pass.stores) {
    const auto pair = result_pair(result);
    out_.line("out{}.at[{}] = Narrow<{}>::from({});", pair.value_or(result),
              pair ? fmt::format("2 * i + {}", *pair == result ? 0 : 1) : "i",
              element_name(kernel_.results[result].to.dtype),
              program_.steps[kernel_.results[result].step].name);
  }
}

// Packs that results are collected in.
void CudaBody::emit_packs_to_store(const ColumnPass& pass) {
  for (uint32_t result : pass.stores) {
    const auto pair = result_pair(result);
    if (pair.value_or(result) != result) continue;
    out_.line("Pack<{}, {}> out{};", element_name(kernel_.results[result].to.dtype),
              pair ? 2 * shape_.pack : shape_.pack, result);
  }
}

void CudaBody::emit_stores(const ColumnPass& pass) {
  for (uint32_t result : pass.stores) {
    if (const auto pair = result_pair(result)) {
      if (*pair == result) out_.line("store_pack(to{0} + 2 * c0, out{0});", result);
    } else if (program_.walk.results[result].column == 1) {
      out_.line("store_pack(to{0} + c0, out{0});", result);
    } else {
      out_.text("#pragma unroll\n");
      out_.line("for (int i = 0; i < {}; ++i)", shape_.pack);
      out_.line("  to{0}[(c0 + i) * {1}] = out{0}.at[i];", result, result_step(result));
    }
  }
}

// What a thread does with its pack at column c0.
void CudaBody::emit_pack(const ColumnPass& pass, std::vector<bool>& loaded) {
  emit_loads(pass, loaded);
  emit_packs_to_store(pass);
  out_.text("#pragma unroll\n");
  out_.open("for (int i = 0; i < {}; ++i)", shape_.pack);
  emit_elements(pass, "");
  out_.close();
  emit_stores(pass);
}

void CudaBody::emit_pass(const ColumnPass& pass, std::vector<bool>& loaded) {
  for (uint32_t fold : pass.folds)
    out_.line("float total_{} = {}::neutral();", fold, fold_name(kernel_.steps[fold].op));
  if (!pass.folds.empty() || !pass.stores.empty()) {
    if (shape_.chunks > 0) {
      out_.text("#pragma unroll\n");
      out_.open("for (int chunk = 0; chunk < {}; ++chunk)", shape_.chunks);
      out_.line("const int c0 = (chunk * {} + lane) * {};", shape_.group, shape_.pack);
      out_.line("if (!present || c0 >= kColumns) continue;");
    } else {
      out_.open("for (int c0 = lane * {}; present && c0 < kColumns; c0 += {})", shape_.pack,
                shape_.group * shape_.pack);
    }
    emit_pack(pass, loaded);
    out_.close();
  }
  for (uint32_t fold : pass.folds) {
    std::string total = fold_text(fold);
    if (kernel_.steps[fold].op == Op::mean) total += " * (1.0f / kColumns)";
    out_.line("const float {} = {};", program_.steps[fold].name,
              rounded(total, kernel_.steps[fold]));
  }
  emit_row_steps(pass.row_computes);
}

std::string constant_text(float value) {
  if (std::isnan(value)) return "__int_as_float(0x7fc00000)";
  if (std::isinf(value)) return value > 0 ? "infinity()" : "-infinity()";
  return fmt::format("{:a}f", value);
}

}  // namespace ridgeline
