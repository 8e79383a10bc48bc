// The CUDA text for a thread's part of a row: loads, steps, folds, stores. Emitters of kernels
// place it after declarations of from0, from1, ..., to0, to1, ... (where the row begins in each
// operand), lane, kColumns and `present` (whether there is a row).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/emit.h"
#include "codegen/text_writer.h"

namespace ridgeline {

class CudaBody {
 public:
  CudaBody(const FusedKernel& kernel, const CudaShape& shape)
      : kernel_(kernel),
        shape_(shape),
        program_(make_program(kernel, shape.chunks > 0)),
        pairs_(find_interleaving(kernel, program_.walk)),
        folds_rows_(kernel.kind == FusedKind::row && kernel.has_folds()),
        loads_(kernel.steps.size()) {
    for (const ColumnPass& pass : program_.passes)
      for (uint32_t step : pass.loads) ++loads_[step];
  }
  virtual ~CudaBody() = default;

 protected:
  // The stride between columns, where it is not 1, and a fold over all threads of a row.
  virtual std::string input_step(uint32_t i) const = 0;
  virtual std::string result_step(uint32_t i) const = 0;
  virtual std::string fold_text(uint32_t fold) const = 0;

  void emit_registers();  // for values that several passes need
  void emit_row_loads();
  void emit_row_steps(const std::vector<uint32_t>& computes);
  void emit_loads(const ColumnPass& pass, std::vector<bool>& loaded);
  void emit_elements(const ColumnPass& pass, const std::string& fold_place);
  void emit_pack(const ColumnPass& pass, std::vector<bool>& loaded);
  void emit_pass(const ColumnPass& pass, std::vector<bool>& loaded);

  const FusedKernel& kernel_;
  const CudaShape& shape_;
  const Program program_;
  const Interleaving pairs_;
  const bool folds_rows_;
  std::vector<int> loads_;  // how many passes load a step
  TextWriter out_;

 private:
  // Whether a loaded value is kept in registers between passes.
  bool stays(uint32_t step) const { return folds_rows_ && shape_.chunks > 0 && loads_[step] > 1; }
  // For an operand in a pair that is loaded or stored in one access: the index of the pair's first
  // one.
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

  void emit_packs_to_store(const ColumnPass& pass);
  void emit_stores(const ColumnPass& pass);
};

// A constant in generated text.
std::string constant_text(float value);

}  // namespace ridgeline
