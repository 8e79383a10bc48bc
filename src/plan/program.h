// A fused kernel in the order in which generated text computes it: passes over the columns of a
// row, each of which ends in folds; the last one writes.
#pragma once

#include <string>
#include <vector>

#include "plan/fused_kernel.h"

namespace ridgeline {

struct ProgramStep {
  std::string name;      // of its variable: "multiply_3"
  std::string type;      // "float" or "int"
  bool per_row = false;  // constant along a row
  int depth = 0;         // number of dependent folds before it
  bool is_kept = false;  // computed in one pass over the columns and used in a later one
};

struct ColumnPass {
  std::vector<uint32_t> kept;             // steps that an earlier pass computed
  std::vector<uint32_t> loads, computes;  // per column, in order
  std::vector<uint32_t> folds;            // at the end of this pass
  std::vector<uint32_t> stores;           // results, by number
  std::vector<uint32_t> row_computes;     // per row, after the folds
};

struct Program {
  FusedWalk walk;
  std::vector<ProgramStep> steps;
  std::vector<uint32_t> row_loads, row_computes;  // before the first pass
  std::vector<ColumnPass> passes;
  std::vector<uint32_t> row_stores;  // results that are one element per row, after the last pass
  std::vector<uint32_t> kept;        // steps
  std::vector<float> constants;      // in the order of their steps
};

// `keeps`: values that a later pass uses are kept, else recomputed.
Program make_program(const FusedKernel& kernel, bool keeps = true);

// Where a row begins in an operand: "at0 * inputs[1].rows[0] + at1 * inputs[1].rows[1]".
std::string row_offset(const Program& program, const std::string& operand);

// A constant as a kernel stores it.
float as_stored(const FusedStep& constant);

// "round_bf16(x)": 16-bit intermediates are rounded as they would be in memory, so that results are
// equal to eager and independent of fusion.
std::string rounded(std::string text, const FusedStep& step);

// "silu(load_0)", rounded.
std::string expression(const FusedKernel& kernel, const Program& program, uint32_t step);

}  // namespace ridgeline
