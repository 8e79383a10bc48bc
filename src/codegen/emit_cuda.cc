// Fused kernels as CUDA: a group of threads per row that is folded, a thread per pack otherwise.
#include <fmt/format.h>

#include "codegen/cuda_body.h"
#include "plan/op_text.h"

namespace ridgeline {
namespace {

using Kind = FusedStep::Kind;

class CudaEmitter : public CudaBody {
 public:
  using CudaBody::CudaBody;

  CudaText emit();

 private:
  std::string input_step(uint32_t i) const override {
    return fmt::format("p.inputs[{}].column", i);
  }
  std::string result_step(uint32_t i) const override {
    return fmt::format("p.outputs[{}].column", i);
  }
  std::string fold_text(uint32_t fold) const override {
    return fmt::format("fold_group<{}, {}>(total_{})", fold_name(kernel_.steps[fold].op),
                       shape_.group, fold);
  }

  void emit_params();
  void emit_addresses();
  void emit_constants();
  void emit_row_kernel();
  void emit_row_stores(const char* others);
  void emit_each_kernel();
  void emit_column_kernel();
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
  emit_registers();
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

CudaText emit_cuda(const FusedKernel& kernel, const CudaShape& shape) {
  return CudaEmitter(kernel, shape).emit();
}

}  // namespace ridgeline
