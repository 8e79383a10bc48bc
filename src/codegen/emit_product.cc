// What becomes of the sums of a product that a kernel computes itself: a function of eight
// neighbours, followed by product_packs.cuh, which multiplies and calls it.
#include "codegen/cuda_body.h"
#include "plan/op_text.h"

namespace ridgeline {
namespace {

using Kind = FusedStep::Kind;

class ProductEmitter {
 public:
  explicit ProductEmitter(const FusedKernel& kernel)
      : kernel_(kernel), program_(make_program(kernel)) {}

  CudaText emit() {
    out_.line("// {}", kernel_.name);
    out_.text("#include \"fused.cuh\"\n#include \"params.h\"\n#include \"product_pack.cuh\"\n\n");
    out_.text("#define PRODUCT_KERNEL ENTRY\n\nnamespace ridgeline {\n\n");
    emit_loads();
    emit_finish();
    out_.text("}  // namespace ridgeline\n\n#include \"product_packs.cuh\"\n");
    CudaText result{.text = out_.take()};
    result.entry = name_entry(result.text, kernel_.name);
    return result;
  }

 private:
  static constexpr int kPack = 8;

  std::string pack_type(DType dtype) const {
    return fmt::format("Pack<{}, {}>", element_name(dtype), kPack);
  }
  // An operand at its row and column; results stand behind the inputs.
  static std::string place(const char* qualifier, DType dtype, size_t number) {
    return fmt::format(
        "static_cast<{}{}*>(p.operands[{}].data) + row * p.operands[{}].row + column", qualifier,
        element_name(dtype), number, number);
  }

  std::string pack_name(uint32_t input) const {
    return fmt::format("{}pack{}", kernel_.is_computed(kernel_.inputs[input]) ? "" : "operands.",
                       input);
  }
  // The input that a result is, as it came.
  std::optional<uint32_t> stored_load(uint32_t result) const {
    const FusedStep& step = kernel_.steps[kernel_.results[result].step];
    if (step.kind != Kind::load || step.dtype != kernel_.results[result].to.dtype)
      return std::nullopt;
    return step.operand;
  }
  // The step whose value is rounded as the result is stored: a cast to its dtype has nothing to
  // add.
  uint32_t unrounded(uint32_t result) const {
    const uint32_t step = kernel_.results[result].step;
    const FusedStep& last = kernel_.steps[step];
    const bool is_cast = last.kind == Kind::compute && last.op == Op::cast &&
                         last.dtype == kernel_.results[result].to.dtype;
    return is_cast ? last.inputs[0] : step;
  }

  void emit_loads() {
    out_.open("struct Operands");
    for (size_t i = 0; i < kernel_.inputs.size(); ++i)
      if (!kernel_.is_computed(kernel_.inputs[i]))
        out_.line("{} pack{};", pack_type(kernel_.inputs[i].dtype), i);
    out_.dedent();
    out_.text("};\n\n");
    out_.open(
        "__device__ __forceinline__ Operands load_operands([[maybe_unused]] const ProductParams& "
        "p, "
        "[[maybe_unused]] int64 row, [[maybe_unused]] int column)");
    out_.line("Operands operands;");
    for (size_t i = 0; i < kernel_.inputs.size(); ++i)
      if (!kernel_.is_computed(kernel_.inputs[i]))
        out_.line("operands.pack{} = load_pack<{}>({});", i, kPack,
                  place("const ", kernel_.inputs[i].dtype, i));
    out_.line("return operands;");
    out_.close();
    out_.text("\n");
  }

  void emit_finish() {
    const ColumnPass& pass = program_.passes[0];
    out_.open(
        "__device__ __forceinline__ void finish_pack(const ProductParams& p, [[maybe_unused]] "
        "const "
        "Operands& operands, const char* sums, int64 row, int column)");
    for (size_t i = 0; i < kernel_.inputs.size(); ++i)
      if (kernel_.is_computed(kernel_.inputs[i]))
        out_.line(
            "const {} pack{} = load_pack<{}>(reinterpret_cast<const {}*>(sums{}));",
            pack_type(kernel_.inputs[i].dtype), i, kPack, element_name(kernel_.inputs[i].dtype),
            kernel_.inputs[i].offset > 0 ? " + COLUMNS" : "");  // half of the columns, 2 bytes each
    size_t constant = 0;
    for (size_t i = 0; i < kernel_.steps.size(); ++i)
      if (kernel_.steps[i].kind == Kind::constant)
        out_.line("const {0} {1} = static_cast<{0}>({2});", program_.steps[i].type,
                  program_.steps[i].name, constant_text(program_.constants[constant++]));
    emit_steps(program_.row_computes);
    for (uint32_t result : pass.stores)
      if (!stored_load(result)) out_.line("float values{}[{}];", result, kPack);
    out_.text("#pragma unroll\n");
    out_.open("for (int i = 0; i < {}; ++i)", kPack);
    for (uint32_t step : pass.loads) {
      const uint32_t i = kernel_.steps[step].operand;
      out_.line("const {} {} = widen({}.at[i]);", program_.steps[step].type,
                program_.steps[step].name, pack_name(i));
    }
    emit_steps(pass.computes);
    for (uint32_t result : pass.stores)
      if (!stored_load(result))
        out_.line("values{}[i] = {};", result, program_.steps[unrounded(result)].name);
    out_.close();
    for (uint32_t result : pass.stores) {
      const DType dtype = kernel_.results[result].to.dtype;
      const auto load = stored_load(result);
      out_.line("store_pack({}, {});", place("", dtype, kernel_.inputs.size() + result),
                load ? pack_name(*load)
                     : fmt::format("narrow_pack<{}>(values{})", element_name(dtype), result));
    }
    out_.close();
    out_.text("\n");
  }

  void emit_steps(const std::vector<uint32_t>& computes) {
    for (uint32_t step : computes)
      out_.line("const {} {} = {};", program_.steps[step].type, program_.steps[step].name,
                expression(kernel_, program_, step));
  }

  const FusedKernel& kernel_;
  const Program program_;
  TextWriter out_;
};

}  // namespace

CudaText emit_product(const FusedKernel& kernel) {
  return ProductEmitter(kernel).emit();
}

}  // namespace ridgeline
