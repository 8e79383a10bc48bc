// The generated part of a resident kernel: the steps between products, each computed by every
// block, in shared memory.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda_body.h"
#include "plan/op_text.h"
#include "plan/resident.h"

namespace ridgeline {
namespace {

using Kind = FusedStep::Kind;

constexpr int kWarp = 32, kComputing = kWarp * kResidentWarps;
constexpr int kFoldScratch = 4;
constexpr int kLocalPack = 4;  // columns of one access

// Or 1: rows and values have to begin at a multiple of it.
int pack_of(const FusedKernel& kernel, const FusedWalk& walk) {
  if (walk.columns % kLocalPack != 0) return 1;
  const auto fits = [&](const FusedOperand& operand, const FusedWalk::Steps& steps) {
    if (steps.column == 0 || operand.is_position) return true;
    return steps.column == 1 && operand.offset % kLocalPack == 0 &&
           std::ranges::all_of(steps.rows, [](int64_t step) { return step % kLocalPack == 0; });
  };
  for (size_t i = 0; i < kernel.inputs.size(); ++i)
    if (!fits(kernel.inputs[i], walk.inputs[i])) return 1;
  for (size_t i = 0; i < kernel.results.size(); ++i)
    if (!fits(kernel.results[i].to, walk.results[i])) return 1;
  return kLocalPack;
}

CudaShape resident_shape(const FusedKernel& kernel) {
  const FusedWalk walk = make_walk(kernel);
  CudaShape shape;
  shape.pack = pack_of(kernel, walk);
  shape.group = walk.rows() == 1 ? kComputing : kWarp;
  const int64_t packs = walk.columns / shape.pack;
  shape.chunks = static_cast<int>((packs + shape.group - 1) / shape.group);
  return shape;
}

// What was given out so far to the kernels of one level, which run side by side.
struct Beside {
  int64_t warps = 0, threads = 0;
};

class LocalBody : public CudaBody {
 public:
  LocalBody(const FusedKernel& kernel, const ResidentLocal& local,
            const std::vector<int64_t>& side_offsets, const CudaShape& shape, int& folds)
      : CudaBody(kernel, shape), local_(local), side_offsets_(side_offsets), folds_(folds) {}

  std::string emit(Beside& beside) {
    const int64_t rows = program_.walk.rows();
    out_.indent();
    out_.line("{{  // {}", kernel_.name);
    out_.indent();
    if (!folds_rows_) {
      const int64_t packs = program_.walk.columns / shape_.pack;
      out_.open("for (int item_of = {}; item_of < {}; item_of += {})",
                turned("threadIdx.x", beside.threads, kComputing), rows * packs, kComputing);
      out_.line("const int row = item_of / {0}, c0 = item_of % {0} * {1};", packs, shape_.pack);
      emit_addresses();
      emit_constants();
      emit_row_loads();
      emit_row_steps(program_.row_computes);
      std::vector<bool> loaded(kernel_.steps.size());
      if (!program_.passes[0].stores.empty()) emit_pack(program_.passes[0], loaded);
      emit_row_stores("c0 == 0");
      out_.close();
      beside.threads += rows * packs;
    } else {
      out_.line("constexpr int kColumns = {};", program_.walk.columns);
      out_.line("constexpr bool present = true;");
      out_.line("const int lane = threadIdx.x % {};", shape_.group);
      if (rows == 1) {
        out_.open("for (int row = 0; row < 1; ++row)");
      } else {
        out_.open("for (int row = {}; row < {}; row += {})",
                  turned("threadIdx.x / 32", beside.warps, kResidentWarps), rows, kResidentWarps);
      }
      emit_addresses();
      emit_constants();
      emit_row_loads();
      emit_row_steps(program_.row_computes);
      emit_registers();
      std::vector<bool> loaded(kernel_.steps.size());
      for (const ColumnPass& pass : program_.passes) emit_pass(pass, loaded);
      emit_row_stores("lane == 0");
      out_.close();
      beside.warps += rows;
    }
    out_.close();
    return out_.take();
  }

 private:
  // Numbers from 0 to `all`, beginning elsewhere: kernels side by side begin with other threads.
  static std::string turned(const char* number, int64_t by, int64_t all) {
    const int64_t back = (all - by % all) % all;
    return back == 0 ? std::string(number) : fmt::format("({} + {}) % {}", number, back, all);
  }
  std::string input_step(uint32_t i) const override {
    return std::to_string(program_.walk.inputs[i].column);
  }
  std::string result_step(uint32_t i) const override {
    return std::to_string(program_.walk.results[i].column);
  }
  std::string fold_text(uint32_t fold) const override {
    const char* name = fold_name(kernel_.steps[fold].op);
    if (shape_.group == kWarp) return fmt::format("fold_warp<{}>(total_{})", name, fold);
    return fmt::format("fold_block<{}>(total_{}, scratch[{}])", name, fold,
                       folds_++ % kFoldScratch);
  }

  std::string row_start(const FusedWalk::Steps& steps) const {
    std::string text;
    for (size_t axis = 0; axis < program_.walk.sizes.size(); ++axis)
      if (steps.rows[axis] != 0 && program_.walk.sizes[axis] != 1)
        text += fmt::format(" + at{} * {}", axis, steps.rows[axis]);
    return text;
  }
  void emit_addresses() {
    const std::vector<int64_t>& sizes = program_.walk.sizes;
    int64_t inner = 1;
    for (size_t axis = sizes.size(); axis-- > 0; inner *= sizes[axis])
      if (sizes[axis] != 1) out_.line("const int at{} = row / {} % {};", axis, inner, sizes[axis]);
    for (size_t i = 0; i < kernel_.inputs.size(); ++i) {
      const FusedOperand& input = kernel_.inputs[i];
      const std::string start = row_start(program_.walk.inputs[i]);
      if (input.is_position) {
        out_.line("const int64 from{} = {}{};", i, input.offset, start);
        continue;
      }
      const ResidentOperand& operand = local_.inputs[i];
      const bool is_side = operand.kind == ResidentOperand::Kind::side;
      const std::string base =
          is_side ? fmt::format("side + {}", side_offsets_[operand.number] +
                                                 input.offset * info(input.dtype).size)
                  : fmt::format("values + item.at[{}]", operand.number);
      out_.line("const {0}* from{1} = reinterpret_cast<const {0}*>({2}){3};",
                element_name(input.dtype), i, base, start);
    }
    for (size_t i = 0; i < kernel_.results.size(); ++i)
      out_.line("{0}* to{1} = reinterpret_cast<{0}*>(values + item.at[{2}]){3};",
                element_name(kernel_.results[i].to.dtype), i, local_.results[i].number,
                row_start(program_.walk.results[i]));
  }
  void emit_constants() {
    for (size_t i = 0, constant = 0; i < kernel_.steps.size(); ++i)
      if (kernel_.steps[i].kind == Kind::constant)
        out_.line("const {0} {1} = static_cast<{0}>({2});", program_.steps[i].type,
                  program_.steps[i].name, constant_text(program_.constants[constant++]));
  }
  void emit_row_stores(const char* who) {
    for (uint32_t result : program_.row_stores)
      out_.line("if ({}) to{}[0] = Narrow<{}>::from({});", who, result,
                element_name(kernel_.results[result].to.dtype),
                program_.steps[kernel_.results[result].step].name);
  }

  const ResidentLocal& local_;
  const std::vector<int64_t>& side_offsets_;
  int& folds_;
};

// One number of rows x0 and x1.
std::string pair_text(const FusedKernel& kernel, const ResidentLocal& pair) {
  const Program program = make_program(kernel);
  TextWriter out;
  out.indent();
  out.indent();
  size_t constant = 0;
  for (uint32_t i = 0; i < kernel.steps.size(); ++i) {
    const FusedStep& step = kernel.steps[i];
    std::string value;
    if (step.kind == Kind::load) value = fmt::format("x{}", pair.inputs[step.operand].number);
    if (step.kind == Kind::constant) value = constant_text(program.constants[constant++]);
    if (step.kind == Kind::compute) value = expression(kernel, program, i);
    out.line("const {} {} = {};", program.steps[i].type, program.steps[i].name, value);
  }
  out.line("return {};", program.steps[kernel.results[0].step].name);
  return out.take();
}

// The number of a text, which is added if it is new.
int number_of(std::vector<std::string>& texts, std::string text) {
  const auto found = std::ranges::find(texts, text);
  const int number = static_cast<int>(found - texts.begin());
  if (found == texts.end()) texts.push_back(std::move(text));
  return number;
}

std::string local_text(const Plan& plan, const ResidentStep& step) {
  std::string text;
  int folds = 0;
  uint32_t last = 0;
  for (const ResidentLocal& local : step.locals) last = std::max(last, local.level);
  for (uint32_t level = 0; level <= last; ++level) {
    if (level > 0) text += "  sync_consumers();\n";
    Beside beside;
    for (const ResidentLocal& local : step.locals) {
      if (local.level != level) continue;
      const FusedKernel& kernel = plan.kernels[local.kernel].group.kernel;
      const CudaShape shape = resident_shape(kernel);
      text += LocalBody(kernel, local, step.side_offsets, shape, folds).emit(beside);
    }
  }
  return text;
}

}  // namespace

ResidentText emit_resident(const Plan& plan, const ResidentPlan& resident) {
  ResidentText result;
  std::vector<std::string> locals, pairs;
  for (const ResidentStep& step : resident.steps) {
    int number = 0;
    if (step.kind == ResidentStep::Kind::local) number = number_of(locals, local_text(plan, step));
    if (step.pair)
      number =
          number_of(pairs, pair_text(plan.kernels[step.pair->kernel].group.kernel, *step.pair));
    result.numbers.push_back(number);
  }
  TextWriter out;
  out.text(
      "#include \"resident.cuh\"\n\n#define RESIDENT_KERNEL ENTRY\n\nnamespace ridgeline {\n\n");
  for (size_t i = 0; i < locals.size(); ++i) {
    out.line(
        "RESIDENT void local_{}(const ResidentItem& item, char* values, const char* side, float "
        "(&scratch)[{}][kWarps]) {{",
        i, kFoldScratch);
    out.text(locals[i]);
    out.text("}\n\n");
  }
  out.open(
      "RESIDENT void run_local(const ResidentItem& item, char* values, const char* side, float "
      "(&scratch)[{}][kWarps])",
      kFoldScratch);
  for (size_t i = 0; i < locals.size(); ++i)
    out.line(
        "if (item.kind == kResidentLocal + {0}) return local_{0}(item, values, side, scratch);", i);
  out.close();
  out.text("\n");
  out.open("RESIDENT float of_pair(int number, float x0, float x1)");
  for (size_t i = 0; i < pairs.size(); ++i) {
    out.open("if (number == {})", i);
    out.text(pairs[i]);
    out.close();
  }
  out.line("return x0;");
  out.close();
  out.text("\n}  // namespace ridgeline\n\n#include \"resident_kernel.cuh\"\n");
  result.text = out.take();
  result.entry = name_entry(result.text, "resident");
  return result;
}

}  // namespace ridgeline
