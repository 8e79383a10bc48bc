// Fused kernels as CUDA: a group of threads per row that is folded, a thread per pack otherwise.
#include <fmt/format.h>

#include <optional>
#include <set>

#include "codegen/emit.h"
#include "codegen/text_writer.h"
#include "plan/op_text.h"

namespace ridgeline {
namespace {

using Kind = FusedStep::Kind;

class CudaEmitter {
 public:
  CudaEmitter(const FusedKernel& kernel, const CudaShape& shape, EmitOptions options)
      : kernel_(kernel),
        shape_(shape),
        options_(keeping(options, shape)),
        program_(make_program(kernel, options_)),
        pairs_(find_interleaving(kernel, program_.walk)),
        folds_rows_(kernel.kind == FusedKind::row && kernel.has_folds()),
        loads_(kernel.steps.size()) {
    for (const ColumnPass& pass : program_.passes)
      for (uint32_t step : pass.loads) ++loads_[step];
  }

  CudaText emit();

 private:
  static EmitOptions keeping(EmitOptions options, const CudaShape& shape) {
    options.keep_in_registers = shape.chunks > 0;
    return options;
  }
  // Whether what is loaded stays in registers from one pass to the next.
  bool stays(uint32_t step) const { return folds_rows_ && shape_.chunks > 0 && loads_[step] > 1; }
  // Of an operand in a pair that is loaded or stored at once: the number of the pair's first one.
  std::optional<uint32_t> pair_of(const std::vector<int>& partners, uint32_t i,
                                  const FusedOperand& operand) const {
    if (shape_.pack == 1 || partners[i] == kAlone) return std::nullopt;
    return Interleaving::is_first(operand) ? i : static_cast<uint32_t>(partners[i]);
  }
  std::optional<uint32_t> input_pair(uint32_t i) const {
    return pair_of(pairs_.inputs, i, kernel_.inputs[i]);
  }
  std::optional<uint32_t> result_pair(uint32_t i) const {
    return pair_of(pairs_.results, i, kernel_.results[i].to);
  }

  void emit_params();
  void emit_addresses();
  void emit_constants();
  void emit_row_loads();
  void emit_row_steps(const std::vector<uint32_t>& computes);
  void emit_loads(const ColumnPass& pass, std::vector<bool>& loaded);
  void emit_elements(const ColumnPass& pass, const std::string& fold_place);
  void emit_packs_to_store(const ColumnPass& pass);
  void emit_stores(const ColumnPass& pass);
  void emit_pack(const ColumnPass& pass, std::vector<bool>& loaded);
  void emit_pass(const ColumnPass& pass, std::vector<bool>& loaded);
  void emit_row_kernel();
  void emit_row_stores(const char* others);
  void emit_each_kernel();
  void emit_column_kernel();

  const FusedKernel& kernel_;
  const CudaShape& shape_;
  const EmitOptions options_;
  const Program program_;
  const Interleaving pairs_;
  const bool folds_rows_;
  std::vector<int> loads_;  // how many passes load a step
  TextWriter out_;
};

void CudaEmitter::emit_params() {
  const size_t axes = program_.walk.sizes.size();
  out_.open("struct Operand");
  out_.line("void* data;");
  out_.line("int64 column, rows[{}];", axes);
  out_.text("};\n");
  out_.dedent();
  out_.open("struct Params");
  out_.line("int64 rows, columns, parts;");
  out_.line("float* partial;");
  out_.line("int64 sizes[{}];", axes);
  if (!program_.constants.empty())
    out_.line("float constants[{}];", (program_.constants.size() + 1) / 2 * 2);
  if (!kernel_.inputs.empty()) out_.line("Operand inputs[{}];", kernel_.inputs.size());
  out_.line("Operand outputs[{}];", kernel_.results.size());
  out_.text("};\n\n");
  out_.dedent();
}

// Where the row `row` of each operand begins.
void CudaEmitter::emit_addresses() {
  const size_t axes = program_.walk.sizes.size();
  if (axes > 1) out_.line("Index rest = row;");
  for (size_t axis = axes; axis-- > 0;) {
    if (axis == 0) {
      out_.line("const int64 at0 = {};", axes > 1 ? "rest" : "row");
    } else {
      out_.line("const int64 at{0} = rest % static_cast<Index>(p.sizes[{0}]);", axis);
      out_.line("rest /= static_cast<Index>(p.sizes[{}]);", axis);
    }
  }
  for (size_t i = 0; i < kernel_.inputs.size(); ++i) {
    const FusedOperand& input = kernel_.inputs[i];
    const std::string operand = fmt::format("p.inputs[{}]", i);
    if (input.is_position) {
      out_.line("const int64 from{} = reinterpret_cast<int64>({}.data) + {};", i, operand,
                row_offset(program_, operand));
    } else {
      out_.line("const {0}* from{1} = static_cast<const {0}*>({2}.data) + {3};",
                element_name(input.dtype), i, operand, row_offset(program_, operand));
    }
  }
  if (kernel_.kind == FusedKind::column) return;
  for (size_t i = 0; i < kernel_.results.size(); ++i) {
    const std::string operand = fmt::format("p.outputs[{}]", i);
    out_.line("{0}* to{1} = static_cast<{0}*>({2}.data) + {3};",
              element_name(kernel_.results[i].to.dtype), i, operand, row_offset(program_, operand));
  }
}

void CudaEmitter::emit_constants() {
  size_t constant = 0;
  for (size_t i = 0; i < kernel_.steps.size(); ++i)
    if (kernel_.steps[i].kind == Kind::constant)
      out_.line("const {0} {1} = static_cast<{0}>(p.constants[{2}]);", program_.steps[i].type,
                program_.steps[i].name, constant++);
}

void CudaEmitter::emit_row_loads() {
  for (uint32_t step : program_.row_loads) {
    const uint32_t i = kernel_.steps[step].operand;
    const std::string from = kernel_.inputs[i].is_position
                                 ? fmt::format("static_cast<int>(from{})", i)
                                 : fmt::format("widen(from{}[0])", i);
    out_.line("const {} {} = {};", program_.steps[step].type, program_.steps[step].name, from);
  }
}

void CudaEmitter::emit_row_steps(const std::vector<uint32_t>& computes) {
  for (uint32_t step : computes)
    out_.line("const {} {} = {};", program_.steps[step].type, program_.steps[step].name,
              expression(kernel_, program_, step, options_));
}

// Packs at column c0. What stays in registers is loaded by the first pass that needs it.
void CudaEmitter::emit_loads(const ColumnPass& pass, std::vector<bool>& loaded) {
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
      out_.line("  {}.at[i] = from{}[(c0 + i) * p.inputs[{}].column];", pack, i, i);
    }
  }
}

// The steps of a pass for element i of a pack, and its part in folds.
void CudaEmitter::emit_elements(const ColumnPass& pass, const std::string& fold_place) {
  for (uint32_t step : pass.loads) {
    const uint32_t i = kernel_.steps[step].operand;
    if (kernel_.inputs[i].is_position) {
      out_.line("const int {} = static_cast<int>(from{} + (c0 + i) * p.inputs[{}].column);",
                program_.steps[step].name, i, i);
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
              expression(kernel_, program_, step, options_));
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
void CudaEmitter::emit_packs_to_store(const ColumnPass& pass) {
  for (uint32_t result : pass.stores) {
    const auto pair = result_pair(result);
    if (pair.value_or(result) != result) continue;
    out_.line("Pack<{}, {}> out{};", element_name(kernel_.results[result].to.dtype),
              pair ? 2 * shape_.pack : shape_.pack, result);
  }
}

void CudaEmitter::emit_stores(const ColumnPass& pass) {
  for (uint32_t result : pass.stores) {
    if (const auto pair = result_pair(result)) {
      if (*pair == result) out_.line("store_pack(to{0} + 2 * c0, out{0});", result);
    } else if (program_.walk.results[result].column == 1) {
      out_.line("store_pack(to{0} + c0, out{0});", result);
    } else {
      out_.text("#pragma unroll\n");
      out_.line("for (int i = 0; i < {}; ++i)", shape_.pack);
      out_.line("  to{0}[(c0 + i) * p.outputs[{0}].column] = out{0}.at[i];", result);
    }
  }
}

// What a thread does with its pack at column c0.
void CudaEmitter::emit_pack(const ColumnPass& pass, std::vector<bool>& loaded) {
  emit_loads(pass, loaded);
  emit_packs_to_store(pass);
  out_.text("#pragma unroll\n");
  out_.open("for (int i = 0; i < {}; ++i)", shape_.pack);
  emit_elements(pass, "");
  out_.close();
  emit_stores(pass);
}

void CudaEmitter::emit_pass(const ColumnPass& pass, std::vector<bool>& loaded) {
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
    std::string total = fmt::format("fold_group<{}, {}>(total_{})",
                                    fold_name(kernel_.steps[fold].op), shape_.group, fold);
    if (kernel_.steps[fold].op == Op::mean) total += " * (1.0f / kColumns)";
    out_.line("const float {} = {};", program_.steps[fold].name,
              rounded(total, kernel_.steps[fold], options_));
  }
  emit_row_steps(pass.row_computes);
}

void CudaEmitter::emit_row_kernel() {
  out_.line("constexpr int kColumns = {};", program_.walk.columns);
  out_.line("const Index wanted = static_cast<Index>(blockIdx.x) * {} + threadIdx.x / {};",
            shape_.threads / shape_.group, shape_.group);
  out_.line("const bool present = wanted < static_cast<Index>(p.rows);");
  out_.line("const Index row = present ? wanted : 0;");
  out_.line("const int lane = threadIdx.x % {};", shape_.group);
  emit_addresses();
  emit_constants();
  emit_row_loads();
  emit_row_steps(program_.row_computes);
  for (uint32_t step = 0; step < kernel_.steps.size(); ++step) {
    const uint32_t i = kernel_.steps[step].operand;
    if (kernel_.steps[step].kind == Kind::load && stays(step) && !kernel_.inputs[i].is_position)
      out_.line("Pack<{}, {}> pack{}[{}];", element_name(kernel_.inputs[i].dtype), shape_.pack, i,
                shape_.chunks);
  }
  for (uint32_t step : program_.kept)
    out_.line("float kept_{}[{}][{}];", program_.steps[step].name, shape_.chunks, shape_.pack);
  std::vector<bool> loaded(kernel_.steps.size());
  for (const ColumnPass& pass : program_.passes) emit_pass(pass, loaded);
  emit_row_stores("!present || lane != 0");
}

// Results of one element per row, by the threads that are not `others`.
void CudaEmitter::emit_row_stores(const char* others) {
  if (program_.row_stores.empty()) return;
  out_.line("if ({}) return;", others);
  for (uint32_t result : program_.row_stores)
    out_.line("to{}[0] = Narrow<{}>::from({});", result,
              element_name(kernel_.results[result].to.dtype),
              program_.steps[kernel_.results[result].step].name);
}

// No folds: every thread has one pack of some row.
void CudaEmitter::emit_each_kernel() {
  const ColumnPass& pass = program_.passes[0];
  out_.line("const Index packs = static_cast<Index>(p.columns) / {};", shape_.pack);
  out_.line("const Index item = static_cast<Index>(blockIdx.x) * {} + threadIdx.x;",
            shape_.threads);
  out_.line("if (item >= static_cast<Index>(p.rows) * packs) return;");
  out_.line("const Index row = item / packs;");
  out_.line("const Index c0 = (item - row * packs) * {};", shape_.pack);
  emit_addresses();
  emit_constants();
  emit_row_loads();
  emit_row_steps(program_.row_computes);
  if (!pass.stores.empty()) {
    std::vector<bool> loaded(kernel_.steps.size());
    emit_pack(pass, loaded);
  }
  emit_row_stores("c0 != 0");
}

// A block folds a strip of columns over one part of the rows.
void CudaEmitter::emit_column_kernel() {
  const ColumnPass& pass = program_.passes[0];
  const int pack = shape_.pack;
  out_.line("__shared__ float shared[{}][{}];", kColumnLines, kColumnLanes * pack);
  out_.line("const int lane = threadIdx.x % {0}, line = threadIdx.x / {0};", kColumnLanes);
  out_.line("const int64 c0 = (static_cast<int64>(blockIdx.x) * {} + lane) * {};", kColumnLanes,
            pack);
  out_.line("const bool inside = c0 < p.columns;");
  out_.line("const Index first = static_cast<Index>(p.rows * blockIdx.y / p.parts);");
  out_.line("const Index last = static_cast<Index>(p.rows * (blockIdx.y + 1) / p.parts);");
  emit_constants();
  for (uint32_t fold : pass.folds) {
    out_.line("float total_{}[{}];", fold, pack);
    out_.text("#pragma unroll\n");
    out_.line("for (int i = 0; i < {}; ++i) total_{}[i] = {}::neutral();", pack, fold,
              fold_name(kernel_.steps[fold].op));
  }
  out_.text("#pragma unroll 4\n");
  out_.open("for (Index row = first + line; inside && row < last; row += {})", kColumnLines);
  emit_addresses();
  emit_row_loads();
  emit_row_steps(program_.row_computes);
  std::vector<bool> loaded(kernel_.steps.size());
  emit_loads(pass, loaded);
  out_.text("#pragma unroll\n");
  out_.open("for (int i = 0; i < {}; ++i)", pack);
  emit_elements(pass, "[i]");
  out_.close();
  out_.close();
  for (size_t number = 0; number < pass.folds.size(); ++number) {
    const uint32_t fold = pass.folds[number];
    out_.line("__syncthreads();");
    out_.text("#pragma unroll\n");
    out_.line("for (int i = 0; i < {0}; ++i) shared[line][lane * {0} + i] = total_{1}[i];", pack,
              fold);
    out_.line("__syncthreads();");
    out_.open("for (int c = threadIdx.x; c < {}; c += {})", kColumnLanes * pack,
              kColumnLanes * kColumnLines);
    out_.line("const int64 column = static_cast<int64>(blockIdx.x) * {} + c;", kColumnLanes * pack);
    out_.line("if (column >= p.columns) continue;");
    out_.line("float total = shared[0][c];");
    out_.text("#pragma unroll\n");
    out_.line("for (int other = 1; other < {}; ++other) total = {}::fold(total, shared[other][c]);",
              kColumnLines, fold_name(kernel_.steps[fold].op));
    out_.line("p.partial[(blockIdx.y * {} + {}) * p.columns + column] = total;", pass.folds.size(),
              number);
    out_.close();
  }
}

CudaText CudaEmitter::emit() {
  out_.line("// {}", kernel_.name);
  out_.text("#include \"fused.cuh\"\n\nnamespace ridgeline {\n\n");
  out_.line("using Index = {};", shape_.wide_index ? "unsigned long long" : "unsigned");
  emit_params();
  const int threads =
      kernel_.kind == FusedKind::column ? kColumnLanes * kColumnLines : shape_.threads;
  out_.line("extern \"C\" __global__ void __launch_bounds__({})", threads);
  out_.open("    ENTRY(const __grid_constant__ Params p)");
  out_.line("wait_for_earlier_kernels();");
  if (kernel_.kind == FusedKind::column) {
    emit_column_kernel();
  } else if (folds_rows_) {
    emit_row_kernel();
  } else {
    emit_each_kernel();
  }
  out_.close();
  out_.text("\n}  // namespace ridgeline\n");
  CudaText result{.text = out_.take(), .constants = program_.constants};
  result.entry = name_entry(result.text, kernel_.name);
  return result;
}

}  // namespace

CudaText emit_cuda(const FusedKernel& kernel, const CudaShape& shape, const EmitOptions& options) {
  return CudaEmitter(kernel, shape, options).emit();
}

}  // namespace ridgeline
