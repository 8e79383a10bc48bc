// The generated part of a merged kernel: what every block computes for itself before its product or
// its attention, and what becomes of a product's rows.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda_body.h"
#include "plan/op_text.h"
#include "plan/plan.h"

namespace ridgeline {
namespace {

using Kind = FusedStep::Kind;

constexpr int kProductWarps = 8, kAttentionWarps = 4;  // as the kernels have them
constexpr int64_t kMostKept = 40;  // elements of a row that a thread keeps in registers
constexpr int64_t kAlignment = 16;

// One row is shared by all threads of a block; of several each has a warp.
CudaShape shape_of(const FusedKernel& kernel, bool is_one_row, int warps) {
  const FusedWalk walk = make_walk(kernel);
  CudaShape shape;
  shape.pack = local_pack(kernel, walk);
  shape.group = is_one_row ? kWarp * warps : kWarp;
  const int64_t packs = walk.columns / shape.pack;
  const int64_t chunks = (packs + shape.group - 1) / shape.group;
  shape.chunks = chunks * shape.pack <= kMostKept ? static_cast<int>(chunks) : 0;
  return shape;
}

class MergedBody : public CudaBody {
 public:
  // `shared_at`: of an attention; of a product none, and the result in shared memory is x.
  MergedBody(const FusedKernel& kernel, const Merge& merge, const MergedKernel& local,
             const std::vector<int64_t>& shared_at, const CudaShape& shape, int warps,
             const EmitOptions& options)
      : CudaBody(kernel, shape, options),
        merge_(merge),
        local_(local),
        shared_at_(shared_at),
        warps_(warps) {}

  // Rows [first, first + count). `turn` is the warp that begins.
  std::string emit(int turn) {
    out_.indent();
    out_.line("{{  // {}", kernel_.name);
    out_.indent();
    const int threads = kWarp * warps_;
    if (!folds_rows_) {
      const int64_t packs = program_.walk.columns / shape_.pack;
      out_.open("for (int item = {}; item < count * {}; item += {})",
                turned("threadIdx.x", turn * kWarp, threads), packs, threads);
      out_.line("const int row = first + item / {0}, c0 = item % {0} * {1};", packs, shape_.pack);
      emit_beginning();
      std::vector<bool> loaded(kernel_.steps.size());
      if (!program_.passes[0].stores.empty()) emit_pack(program_.passes[0], loaded);
      emit_row_stores("c0 == 0");
    } else {
      out_.line("constexpr int kColumns = {};", program_.walk.columns);
      out_.line("constexpr bool present = true;");
      out_.line("const int lane = threadIdx.x % {};", shape_.group);
      if (shape_.group > kWarp) {
        out_.open("for (int row = first; row < first + count; ++row)");
      } else {
        out_.open("for (int row = first + {}; row < first + count; row += {})",
                  turned("threadIdx.x / 32", turn, warps_), warps_);
      }
      emit_beginning();
      emit_registers();
      std::vector<bool> loaded(kernel_.steps.size());
      emit_early_loads(loaded);
      for (const ColumnPass& pass : program_.passes) emit_pass(pass, loaded);
      emit_row_stores("lane == 0");
    }
    out_.close();
    out_.close();
    return out_.take();
  }

 private:
  // Numbers from 0 to `all`, beginning elsewhere: kernels side by side begin with other threads.
  static std::string turned(const char* number, int by, int all) {
    const int back = (all - by % all) % all;
    return back == 0 ? std::string(number)
                     : fmt::format("static_cast<int>(({} + {}) % {})", number, back, all);
  }
  std::string input_step(uint32_t i) const override {
    return std::to_string(program_.walk.inputs[i].column);
  }
  std::string result_step(uint32_t i) const override {
    return std::to_string(program_.walk.results[i].column);
  }
  std::string fold_text(uint32_t fold) const override {
    return fmt::format("fold_group<{}, {}>(total_{})", fold_name(kernel_.steps[fold].op),
                       shape_.group, fold);
  }
  std::string store_guard(uint32_t result) const override {
    return local_.results[result].in_memory ? "if (stores) " : "";
  }

  std::string memory_row(uint32_t number, const FusedWalk::Steps& steps) const {
    std::string text = fmt::format("(p.memory[{}])", number);
    for (size_t axis = 0; axis < program_.walk.sizes.size(); ++axis)
      if (steps.rows[axis] != 0) text += fmt::format(" + at{} * {}", axis, steps.rows[axis]);
    return text;
  }
  std::string shared_row(uint32_t number, const FusedOperand& operand) const {
    if (merge_.kind == Merge::Kind::product) return "(x + row * X_PITCH)";
    return fmt::format("(rows + {}) + (row - first) * {} + {}", shared_at_[number],
                       merge_.shared[number].elements, operand.offset);
  }
  void emit_beginning() {
    const std::vector<int64_t>& sizes = program_.walk.sizes;
    int64_t inner = 1;
    for (size_t axis = sizes.size(); axis-- > 0; inner *= sizes[axis])
      out_.line("[[maybe_unused]] const int64 at{} = row / {}{};", axis, inner,
                axis == 0 ? "" : fmt::format(" % {}", sizes[axis]));
    for (uint32_t i = 0; i < kernel_.inputs.size(); ++i) {
      const MergedKernel::Place& place = local_.inputs[i];
      out_.line("const {0}* from{1} = {2}_cast<const {0}*>{3};",
                element_name(kernel_.inputs[i].dtype), i,
                place.in_memory ? "static" : "reinterpret",
                place.in_memory ? memory_row(place.number, program_.walk.inputs[i])
                                : shared_row(place.number, kernel_.inputs[i]));
    }
    for (uint32_t i = 0; i < kernel_.results.size(); ++i) {
      const MergedKernel::Place& place = local_.results[i];
      out_.line("{0}* to{1} = {2}_cast<{0}*>{3};", element_name(kernel_.results[i].to.dtype), i,
                place.in_memory ? "static" : "reinterpret",
                place.in_memory ? memory_row(place.number, program_.walk.results[i])
                                : shared_row(place.number, kernel_.results[i].to));
    }
    for (size_t i = 0, constant = 0; i < kernel_.steps.size(); ++i)
      if (kernel_.steps[i].kind == Kind::constant)
        out_.line("const {0} {1} = static_cast<{0}>({2});", program_.steps[i].type,
                  program_.steps[i].name, constant_text(program_.constants[constant++]));
    emit_row_loads();
    emit_row_steps(program_.row_computes);
  }
  void emit_row_stores(const char* who) {
    for (uint32_t result : program_.row_stores)
      out_.line("if ({}) {}to{}[0] = Narrow<{}>::from({});", who, store_guard(result), result,
                element_name(kernel_.results[result].to.dtype),
                program_.steps[kernel_.results[result].step].name);
  }

  const Merge& merge_;
  const MergedKernel& local_;
  const std::vector<int64_t>& shared_at_;
  const int warps_;
};

const FusedKernel& kernel_of(const Plan& plan, uint32_t number) {
  return plan.kernels[number].group.kernel;
}

std::string product_text(const Plan& plan, const Merge& merge) {
  std::string text;
  if (!merge.before.empty()) {
    const MergedKernel& local = merge.before[0];
    const FusedKernel& kernel = kernel_of(plan, local.kernel);
    text +=
        "// The rows of x, in shared memory; the block that `stores` leaves what others read.\n"
        "__device__ __forceinline__ void prepare_x(const FewRowsParams& p, char* x, bool stores) "
        "{\n  const int first = 0, count = p.tokens;\n";
    const CudaShape shape = shape_of(kernel, kernel.rows() == 1, kProductWarps);
    text += MergedBody(kernel, merge, local, {}, shape, kProductWarps, plan.emit).emit(0);
    text += "}\n\n";
  }
  if (merge.pair)
    text += "__device__ __forceinline__ float of_pair(float x0, float x1) {\n" +
            pair_text(kernel_of(plan, *merge.pair), merge.pair_halves, plan.emit) + "}\n\n";
  return text;
}

std::string attention_text(const Plan& plan, const Merge& merge,
                           const std::vector<int64_t>& shared_at, int64_t group) {
  std::string text =
      "// Rows of the heads that share key head `pair` of all texts, in shared memory.\n"
      "__device__ __forceinline__ void prepare_rows(const CachedAttentionParams& p, char* rows, "
      "int pair) {\n";
  uint32_t last = 0;
  for (const MergedKernel& local : merge.before) last = std::max(last, local.level);
  for (uint32_t level = 0; level <= last; ++level) {
    int turn = 0;
    for (const MergedKernel& local : merge.before) {
      if (local.level != level) continue;
      const int64_t count = local.is_of_queries ? group : 1;
      const FusedKernel& kernel = kernel_of(plan, local.kernel);
      const CudaShape shape = shape_of(kernel, false, kAttentionWarps);
      text += fmt::format("  {{\n  const int count = {0}, first = pair * {0};\n", count);
      text +=
          MergedBody(kernel, merge, local, shared_at, shape, kAttentionWarps, plan.emit).emit(turn);
      text += "  }\n";
      turn += static_cast<int>(count);
    }
    text += "  __syncthreads();\n";
  }
  return text + "}\n\n";
}

}  // namespace

MergedText emit_merged(const Graph& graph, const Plan& plan, const Merge& merge) {
  MergedText result;
  const bool is_product = merge.kind == Merge::Kind::product;
  int64_t group = 1;
  if (!is_product) {
    const Node& node = graph.nodes()[plan.kernels[merge.main].group.node];
    group = graph.type(node.inputs[0]).shape[1] / graph.type(node.inputs[1]).shape[1];
    for (const MergedRows& rows : merge.shared) {
      result.shared_at.push_back(result.shared_bytes);
      const int64_t bytes = (rows.is_of_queries ? group : 1) * rows.elements *
                            info(graph.type(rows.storage).dtype).size;
      result.shared_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
  }
  result.text =
      "#include \"fused.cuh\"\n#include \"params.h\"\n\n#define MERGED_KERNEL ENTRY\n\nnamespace "
      "ridgeline {\n\n";
  result.text +=
      is_product ? product_text(plan, merge) : attention_text(plan, merge, result.shared_at, group);
  result.text += fmt::format("}}  // namespace ridgeline\n\n#include \"{}\"\n",
                             is_product ? "few_rows.cuh" : "cached_attention_kernel.cuh");
  result.entry = name_entry(result.text, is_product ? "merged_product" : "merged_attention");
  return result;
}

}  // namespace ridgeline
