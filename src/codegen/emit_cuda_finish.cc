// The second kernel of column folds: what the parts of the first one left becomes the results.
#include "codegen/emit.h"
#include "codegen/text_writer.h"
#include "plan/op_text.h"

namespace ridgeline {

CudaText emit_cuda_finish(const FusedKernel& kernel) {
  std::vector<uint32_t> folds;
  for (uint32_t i = 0; i < kernel.steps.size(); ++i)
    if (kernel.steps[i].kind == FusedStep::Kind::fold) folds.push_back(i);
  TextWriter out;
  out.line("// the parts of {}", kernel.name);
  out.text("#include \"fused.cuh\"\n\nnamespace ridgeline {\n\n");
  out.open("struct Params");
  out.line("int64 rows, columns, parts;");
  out.line("const float* partial;");
  out.line("void* outputs[{}];", kernel.results.size());
  out.text("};\n\n");
  out.dedent();
  out.line("extern \"C\" __global__ void __launch_bounds__({})", kColumnLanes * kColumnLines);
  out.open("    ENTRY(const __grid_constant__ Params p)");
  out.line("wait_for_earlier_kernels();");
  out.line("__shared__ float shared[{}][{}];", kColumnLines, kColumnLanes);
  out.line("const int lane = threadIdx.x % {0}, line = threadIdx.x / {0};", kColumnLanes);
  out.line("const int64 column = static_cast<int64>(blockIdx.x) * {} + lane;", kColumnLanes);
  out.line("const bool inside = column < p.columns;");
  for (size_t i = 0; i < kernel.results.size(); ++i) {
    const FusedResult& result = kernel.results[i];
    const Op op = kernel.steps[result.step].op;
    size_t fold = 0;
    while (folds[fold] != result.step) ++fold;
    out.open("");
    out.line("float total = {}::neutral();", fold_name(op));
    out.line("for (int64 part = line; inside && part < p.parts; part += {})", kColumnLines);
    out.line("  total = {}::fold(total, p.partial[(part * {} + {}) * p.columns + column]);",
             fold_name(op), folds.size(), fold);
    out.line("__syncthreads();");
    out.line("shared[line][lane] = total;");
    out.line("__syncthreads();");
    out.open("if (line == 0 && inside)");
    out.line(
        "for (int other = 1; other < {}; ++other) total = {}::fold(total, shared[other][lane]);",
        kColumnLines, fold_name(op));
    if (op == Op::mean) out.line("total *= 1.0f / static_cast<float>(p.rows);");
    out.line("static_cast<{0}*>(p.outputs[{1}])[column] = Narrow<{0}>::from(total);",
             element_name(result.to.dtype), i);
    out.close();
    out.close();
  }
  out.close();
  out.text("\n}  // namespace ridgeline\n");
  CudaText text{.text = out.take()};
  text.entry = name_entry(text.text, kernel.name + "_finish");
  return text;
}

}  // namespace ridgeline
