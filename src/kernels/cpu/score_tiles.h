// Applies the score function of an attention node to tiles of scores: op by op, a few rows at a
// time, so that they stay in the L1 cache.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "graph/score_function.h"
#include "kernels/cpu/simd/flash_kernels.h"
#include "kernels/cpu/simd_kernels.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/tensor_view.h"

namespace ridgeline {

// Computes one value of a graph over scalars for many elements at once.
class ScoreProgram {
 public:
  ScoreProgram(const Graph& graph, Value wanted);

  // `inputs`: one for each input of the graph, of `count` elements or one for all, and then each
  // again as the bits of int32_t; those that reads() denies may be missing. `buffers` has
  // buffer_count() * count floats.
  const float* run(const SimdKernels& simd, std::span<const PointwiseOperand> inputs, int64_t count,
                   float* buffers) const;
  int64_t buffer_count() const { return static_cast<int64_t>(steps_.size()) + 1; }
  size_t input_count() const { return reads_.size() / 2; }
  bool reads(size_t input) const { return reads_[input]; }

 private:
  struct Step {
    Op op;
    bool compares_integers;
    std::array<uint32_t, 3> inputs;  // slots
  };
  // Slots hold the inputs, as numbers and as integers, then the constants, then the results of the
  // steps.
  std::vector<bool> reads_;  // by slot of an input
  std::vector<float> constants_;
  std::vector<Step> steps_;
  uint32_t wanted_;  // a slot
};

class ScoreTiles {
 public:
  // `spec` must have a score function. `sums`: what adding() adds to, one for each operand whose
  // gradient is requested.
  ScoreTiles(const AttentionSpec& spec, std::span<const TensorView> operands,
             std::span<const TensorView> sums, Isa isa);

  FlashFunction of_head(int64_t batch, int64_t head) const;

  bool has_sums() const { return !sums_.empty(); }
  void clear_sums() const;
  // Whether some operand's gradient is summed along an axis of the scores [B, H, Sq, Sk].
  bool sums_over(int axis) const;
  // Like of_head(), but adds the gradients of the operands to their sums and leaves those of the
  // scores unchanged. Two threads must not add to the same sums.
  FlashFunction adding(int64_t batch, int64_t head) const;
  // Called after all tiles were added.
  void add_up_diagonals(ThreadPool& pool) const;

 private:
  struct OperandSum {
    ScoreProgram program;
    TensorView sums;
    Shape operand;
    // Sums along diagonals: each tile of keys has its own, [B, H, tiles, Sq + Sk - 1] in `memory`,
    // which are added up into the result afterwards.
    TensorView diagonals = {};
    std::unique_ptr<float[]> memory = {};
  };

  // f hides a score unless the program's value is `wanted`, as a condition.
  struct Condition {
    ScoreProgram program;
    bool wanted;
  };

  static void give_tiles_sums(OperandSum& each);
  template <class Use>
  void for_each_part(const ScoreProgram& program, const FlashFunction& function,
                     const FlashScores& place, const float* scores, const float* gradients,
                     Use use) const;
  FlashFunction function_of(int64_t batch, int64_t head,
                            decltype(FlashFunction::differentiate) gradients) const;
  static void apply(const FlashFunction& function, const FlashScores& place, float* scores);
  static void differentiate(const FlashFunction& function, const FlashScores& place,
                            const float* scores, float* gradients);
  static void add(const FlashFunction& function, const FlashScores& place, const float* scores,
                  float* gradients);
  static bool sees(const FlashFunction& function, const FlashScores& place);

  const SimdKernels& simd_;
  std::vector<TensorView> operands_;  // broadcast: strides of 0 along axes of size 1
  std::vector<int> positions_;        // of the score function
  ScoreProgram value_, gradient_;
  std::vector<Condition> conditions_;
  std::vector<OperandSum> sums_;
};

}  // namespace ridgeline
