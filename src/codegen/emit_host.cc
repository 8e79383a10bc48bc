// Fused kernels as C++: a function over a range of rows, in loops that a compiler vectorises.
#include <fmt/format.h>

#include "codegen/emit.h"
#include "codegen/text_writer.h"
#include "plan/op_text.h"

namespace ridgeline {
namespace {

using Kind = FusedStep::Kind;

constexpr int kRun = 256;  // columns that are summed before they join the total, for accuracy

class HostEmitter {
 public:
  explicit HostEmitter(const FusedKernel& kernel)
      : kernel_(kernel), program_(make_program(kernel)) {}

  HostText emit();

 private:
  void emit_addresses();
  void emit_row_steps(const std::vector<uint32_t>& computes);
  void emit_column_steps(const ColumnPass& pass);
  void emit_pass(const ColumnPass& pass);
  void emit_row_kernel();
  void emit_column_kernel();
  std::string load(uint32_t step, bool in_columns) const;
  uint32_t folded(uint32_t fold) const { return kernel_.steps[fold].inputs[0]; }
  // Whether the step's columns are an operand's own, fp32 and side by side.
  bool lies_in_memory(uint32_t step) const {
    const FusedStep& load = kernel_.steps[step];
    return load.kind == Kind::load && !program_.steps[step].per_row &&
           kernel_.inputs[load.operand].dtype == DType::f32 &&
           !kernel_.inputs[load.operand].is_position &&
           program_.walk.inputs[load.operand].column == 1;
  }
  const char* how(uint32_t fold) const { return fold_name(kernel_.steps[fold].op); }
  std::string column_index(int64_t step, const std::string& operand) const {
    return step == 1 ? "c" : fmt::format("c * {}.column", operand);
  }

  const FusedKernel& kernel_;
  const Program program_;
  TextWriter out_;
};

// Where this row of each operand begins.
void HostEmitter::emit_addresses() {
  const size_t axes = program_.walk.sizes.size();
  if (axes > 1) out_.line("int64 rest = row;");
  for (size_t axis = axes; axis-- > 0;) {
    if (axis == 0) {
      out_.line("const int64 at0 = {};", axes > 1 ? "rest" : "row");
    } else {
      out_.line("const int64 at{0} = rest % sizes[{0}];", axis);
      out_.line("rest /= sizes[{}];", axis);
    }
  }
  for (size_t i = 0; i < kernel_.inputs.size(); ++i) {
    const FusedOperand& input = kernel_.inputs[i];
    const std::string operand = fmt::format("inputs[{}]", i);
    if (input.is_position) {
      out_.line("const int64 from{} = (int64){}.data + {};", i, operand,
                row_offset(program_, operand));
    } else {
      out_.line("const {0}* from{1} = (const {0}*){2}.data + {3};", element_name(input.dtype), i,
                operand, row_offset(program_, operand));
    }
  }
  if (kernel_.kind == FusedKind::row)
    for (size_t i = 0; i < kernel_.results.size(); ++i) {
      const std::string operand = fmt::format("outputs[{}]", i);
      out_.line("{0}* to{1} = ({0}*){2}.data + {3};", element_name(kernel_.results[i].to.dtype), i,
                operand, row_offset(program_, operand));
    }
}

std::string HostEmitter::load(uint32_t step, bool in_columns) const {
  const uint32_t i = kernel_.steps[step].operand;
  const std::string index =
      in_columns ? column_index(program_.walk.inputs[i].column, fmt::format("inputs[{}]", i)) : "0";
  if (kernel_.inputs[i].is_position) return fmt::format("(int)(from{} + {})", i, index);
  return fmt::format("widen(from{}[{}])", i, index);
}

void HostEmitter::emit_row_steps(const std::vector<uint32_t>& computes) {
  for (uint32_t step : computes)
    out_.line("const {} {} = {};", program_.steps[step].type, program_.steps[step].name,
              expression(kernel_, program_, step));
}

// Everything that a pass computes in one column.
void HostEmitter::emit_column_steps(const ColumnPass& pass) {
  for (uint32_t step : pass.loads)
    out_.line("const {} {} = {};", program_.steps[step].type, program_.steps[step].name,
              load(step, true));
  for (uint32_t step : pass.kept)
    out_.line("const float {0} = kept_{0}[c];", program_.steps[step].name);
  for (uint32_t step : pass.computes) {
    out_.line("const {} {} = {};", program_.steps[step].type, program_.steps[step].name,
              expression(kernel_, program_, step));
    if (program_.steps[step].is_kept) out_.line("kept_{0}[c] = {0};", program_.steps[step].name);
  }
}

void HostEmitter::emit_pass(const ColumnPass& pass) {
  if (!pass.folds.empty()) {
    for (uint32_t fold : pass.folds) out_.line("float total_{} = {}::kNone;", fold, how(fold));
    out_.open("for (int64 begin = 0; begin < kColumns; begin += {})", kRun);
    out_.line("const int64 end = begin + {0} < kColumns ? begin + {0} : kColumns;", kRun);
    std::vector<uint32_t> gathered;
    for (uint32_t fold : pass.folds)
      if (!lies_in_memory(folded(fold))) gathered.push_back(fold);
    for (uint32_t fold : gathered) out_.line("float items_{}[{}];", fold, kRun);
    if (!gathered.empty() || !pass.computes.empty()) {
      out_.text("#pragma omp simd\n");
      out_.open("for (int64 c = begin; c < end; ++c)");
      emit_column_steps(pass);
      for (uint32_t fold : gathered)
        out_.line("items_{}[c - begin] = {};", fold, program_.steps[folded(fold)].name);
      out_.close();
    }
    for (uint32_t fold : pass.folds) {
      const uint32_t item = folded(fold);
      const std::string items = lies_in_memory(item)
                                    ? fmt::format("from{} + begin", kernel_.steps[item].operand)
                                    : fmt::format("items_{}", fold);
      out_.line("total_{0} = {1}::join(total_{0}, fold<{1}>({2}, end - begin));", fold, how(fold),
                items);
    }
    out_.close();
    for (uint32_t fold : pass.folds) {
      std::string total = fmt::format("total_{}", fold);
      if (kernel_.steps[fold].op == Op::mean) total += " * (1.0f / kColumns)";
      out_.line("const float {} = {};", program_.steps[fold].name,
                rounded(total, kernel_.steps[fold]));
    }
  }
  if (!pass.stores.empty()) {
    out_.text("#pragma omp simd\n");
    out_.open("for (int64 c = first_column; c < last_column; ++c)");
    emit_column_steps(pass);
    for (uint32_t result : pass.stores)
      out_.line(
          "put(&to{0}[{1}], {2});", result,
          column_index(program_.walk.results[result].column, fmt::format("outputs[{}]", result)),
          program_.steps[kernel_.results[result].step].name);
    out_.close();
  }
  emit_row_steps(pass.row_computes);
}

void HostEmitter::emit_row_kernel() {
  for (size_t i = 0; i < program_.kept.size(); ++i)
    out_.line("float* kept_{} = scratch + {} * kColumns;", program_.steps[program_.kept[i]].name,
              i);
  out_.open("for (int64 row = first_row; row < last_row; ++row)");
  emit_addresses();
  for (uint32_t step : program_.row_loads)
    out_.line("const {} {} = {};", program_.steps[step].type, program_.steps[step].name,
              load(step, false));
  emit_row_steps(program_.row_computes);
  for (const ColumnPass& pass : program_.passes) emit_pass(pass);
  for (uint32_t result : program_.row_stores)
    out_.line("put(&to{}[0], {});", result, program_.steps[kernel_.results[result].step].name);
  out_.close();
}

// Adds the rows of one part into `scratch`, one row of fp32 for each fold.
void HostEmitter::emit_column_kernel() {
  const ColumnPass& pass = program_.passes[0];
  for (size_t i = 0; i < pass.folds.size(); ++i) {
    out_.line("float* total_{} = scratch + {} * (last_column - first_column);", pass.folds[i], i);
    const bool is_max = kernel_.steps[pass.folds[i]].op == Op::max;
    out_.line("for (int64 c = first_column; c < last_column; ++c) total_{}[c] = {};", pass.folds[i],
              is_max ? "-__builtin_inff()" : "0");
  }
  out_.open("for (int64 row = first_row; row < last_row; ++row)");
  emit_addresses();
  for (uint32_t step : program_.row_loads)
    out_.line("const {} {} = {};", program_.steps[step].type, program_.steps[step].name,
              load(step, false));
  emit_row_steps(program_.row_computes);
  out_.text("#pragma omp simd\n");
  out_.open("for (int64 c = first_column; c < last_column; ++c)");
  emit_column_steps(pass);
  for (uint32_t fold : pass.folds) {
    const std::string& item = program_.steps[kernel_.steps[fold].inputs[0]].name;
    if (kernel_.steps[fold].op == Op::max) {
      out_.line("total_{0}[c] = larger(total_{0}[c], {1});", fold, item);
    } else {
      out_.line("total_{}[c] += {};", fold, item);
    }
  }
  out_.close();
  out_.close();
}

HostText HostEmitter::emit() {
  out_.line("// {}", kernel_.name);
  out_.text(
      "extern \"C\" void ENTRY(const Operand* inputs, const Operand* outputs, const float* "
      "constants,"
      "\n    const int64* sizes, int64 first_row, int64 last_row, int64 first_column, int64 "
      "last_column, float* scratch) {\n");
  out_.indent();
  if (kernel_.kind == FusedKind::row && kernel_.has_folds())
    out_.line("constexpr int64 kColumns = {};", program_.walk.columns);
  size_t constant = 0;
  for (size_t i = 0; i < kernel_.steps.size(); ++i)
    if (kernel_.steps[i].kind == Kind::constant)
      out_.line("const {0} {1} = ({0})constants[{2}];", program_.steps[i].type,
                program_.steps[i].name, constant++);
  if (kernel_.kind == FusedKind::row) {
    emit_row_kernel();
  } else {
    emit_column_kernel();
  }
  out_.close();
  HostText result{.text = out_.take(),
                  .constants = program_.constants,
                  .kept_rows = static_cast<int64_t>(program_.kept.size())};
  // Named after its ops, and told apart by its text.
  result.entry = name_entry(result.text, kernel_.name);
  return result;
}

}  // namespace

HostText emit_host(const FusedKernel& kernel) {
  return HostEmitter(kernel).emit();
}

}  // namespace ridgeline
