// The score function of an attention node as text for the flash kernels.
#pragma once

#include <array>
#include <span>
#include <string>

#include "graph/score_function.h"
#include "kernels/cuda/params.h"
#include "kernels/tensor_view.h"

namespace ridgeline {

// Bodies for SCORE_VALUE and SCORE_GRADIENT (flash_function.cuh), each in one line.
std::string score_value_text(const ScoreFunction& function, std::span<const TensorView> operands);
std::string score_gradient_text(const ScoreFunction& function,
                                std::span<const TensorView> operands);
std::string operand_gradient_text(const ScoreFunction& function,
                                  std::span<const TensorView> operands, int operand);

// The body of SCORE_VISIBLE (flash_seen.cu), and whether it varies along batches and along heads.
std::string score_visible_text(const ScoreFunction& function, std::span<const TensorView> operands);
std::array<bool, 2> score_visible_axes(const ScoreFunction& function,
                                       std::span<const TensorView> operands);

// "along::heads | along::keys": the axes along which an operand varies; "0": none.
std::string operand_axes_text(const TensorView& operand);

FlashOperand flash_operand(const TensorView& view);

}  // namespace ridgeline
