#include "kernels/cpu/score_tiles.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "kernels/cpu/chunk.h"

namespace ridgeline {
namespace {

constexpr int64_t kPart = 1024;  // elements processed at once

TensorView broadcast(TensorView view) {
  for (int axis = 0; axis < view.shape.rank(); ++axis)
    if (view.shape[axis] == 1) view.strides[axis] = 0;
  return view;
}

bool is_comparison(Op op) {
  const PointwiseRow* row = pointwise_row(op);
  return row != nullptr && row->kind == PointwiseKind::comparison;
}

}  // namespace

ScoreProgram::ScoreProgram(const Graph& graph, Value wanted) {
  const std::vector<Value> inputs = graph.inputs();
  const std::vector<uint32_t> needed = needed_nodes(graph, wanted);
  const auto input_count = static_cast<uint32_t>(inputs.size());
  reads_.assign(2 * inputs.size(), false);
  std::map<uint32_t, uint32_t> places;  // by node
  for (uint32_t i = 0; i < input_count; ++i) places[inputs[i].node] = i;
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    const Node& node = graph.nodes()[number];
    if (node.op != Op::constant) continue;
    places[number] = static_cast<uint32_t>(reads_.size() + constants_.size());
    constants_.push_back(static_cast<float>(std::get<Scalar>(node.attributes.detail).value));
  }
  const auto slot_of = [&](Value value, bool as_integer = false) {
    const uint32_t slot = places.at(value.node) + (as_integer ? input_count : 0);
    if (slot < reads_.size()) reads_[slot] = true;
    return slot;
  };
  const auto is_integer = [&](Value value) {
    return places.at(value.node) < input_count && graph.type(value).dtype == DType::i32;
  };
  for (uint32_t number : needed) {
    const Node& node = graph.nodes()[number];
    if (node.op == Op::cast) {  // everything is fp32 here but integers that are compared
      places[number] = slot_of(node.inputs[0]);
      continue;
    }
    Step step{node.op, is_comparison(node.op) && std::ranges::all_of(node.inputs, is_integer), {}};
    for (size_t i = 0; i < node.inputs.size(); ++i)
      step.inputs[i] = slot_of(node.inputs[i], step.compares_integers);
    places[number] = static_cast<uint32_t>(reads_.size() + constants_.size() + steps_.size());
    steps_.push_back(step);
  }
  wanted_ = slot_of(wanted);
}

const float* ScoreProgram::run(const SimdKernels& simd, std::span<const PointwiseOperand> inputs,
                               int64_t count, float* buffers) const {
  const size_t first_step = reads_.size() + constants_.size();
  const auto place = [&](uint32_t number) -> PointwiseOperand {
    if (number < reads_.size()) return inputs[number];
    if (number < first_step) return {&constants_[number - reads_.size()], true};
    return {buffers + static_cast<int64_t>(number - first_step) * count, false};
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const std::array<PointwiseOperand, 3> operands = {
        place(steps_[i].inputs[0]), place(steps_[i].inputs[1]), place(steps_[i].inputs[2])};
    const auto compute = steps_[i].compares_integers ? simd.compare_integers : simd.pointwise;
    compute(steps_[i].op, operands.data(), buffers + static_cast<int64_t>(i) * count, count);
  }
  const PointwiseOperand result = place(wanted_);
  if (!result.is_scalar) return result.data;
  float* filled = buffers + static_cast<int64_t>(steps_.size()) * count;
  std::fill_n(filled, count, *result.data);
  return filled;
}

ScoreTiles::ScoreTiles(const AttentionSpec& spec, std::span<const TensorView> operands,
                       std::span<const TensorView> sums, Isa isa)
    : simd_(simd_kernels(isa)),
      positions_(spec.function->positions),
      value_(spec.function->value, spec.function->value.outputs()[0].value),
      gradient_(spec.function->gradient, score_gradient(*spec.function)) {
  for (const TensorView& operand : operands) operands_.push_back(broadcast(operand));
  for (const auto& [condition, wanted] : score_conditions(*spec.function))
    conditions_.push_back({{spec.function->value, condition}, wanted});
  size_t next = 0;
  for (int i = 0; i < static_cast<int>(operands.size()) && next < sums.size(); ++i)
    if ((spec.operand_gradients >> i & 1) != 0) {
      sums_.push_back({{spec.function->gradient, *operand_gradient(*spec.function, i)},
                       sums[next++],
                       operands[static_cast<size_t>(i)].shape});
      if ((spec.diagonal_gradients >> i & 1) != 0) give_tiles_sums(sums_.back());
    }
}

void ScoreTiles::give_tiles_sums(OperandSum& each) {
  each.diagonals = each.sums;
  Shape& shape = each.sums.shape;
  shape[2] = (each.operand[3] + kScoreTile - 1) / kScoreTile;
  each.memory = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(element_count(shape)));
  each.sums.data = each.memory.get();
  each.sums.strides = contiguous_strides(shape);
}

FlashFunction ScoreTiles::function_of(int64_t batch, int64_t head,
                                      decltype(FlashFunction::differentiate) gradients) const {
  return {this, batch, head, apply, gradients, conditions_.empty() ? nullptr : sees};
}

FlashFunction ScoreTiles::of_head(int64_t batch, int64_t head) const {
  return function_of(batch, head, differentiate);
}

FlashFunction ScoreTiles::adding(int64_t batch, int64_t head) const {
  return function_of(batch, head, add);
}

void ScoreTiles::clear_sums() const {
  for (const OperandSum& each : sums_)
    std::fill_n(each.sums.as<float>(), element_count(each.sums.shape), 0.0f);
}

void ScoreTiles::add_up_diagonals(ThreadPool& pool) const {
  constexpr int64_t kAtOnce = 4096;
  for (const OperandSum& each : sums_) {
    if (each.memory == nullptr) continue;
    const int64_t tiles = each.sums.shape[2], length = each.sums.shape[3];
    pool.for_range(element_count(each.diagonals.shape), kAtOnce, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* from = each.memory.get() + i / length * tiles * length + i % length;
        float sum = 0;
        for (int64_t tile = 0; tile < tiles; ++tile) sum += from[tile * length];
        each.diagonals.as<float>()[i] = sum;
      }
    });
  }
}

bool ScoreTiles::sums_over(int axis) const {
  return std::any_of(sums_.begin(), sums_.end(),
                     [&](const OperandSum& each) { return each.operand[axis] == 1; });
}

// Calls use(first row, elements, result) for parts of the tile, until it returns true. `scores` and
// `gradients` may be null if the program does not read them.
template <class Use>
void ScoreTiles::for_each_part(const ScoreProgram& program, const FlashFunction& function,
                               const FlashScores& place, const float* scores,
                               const float* gradients, Use use) const {
  const int64_t rows = place.rows.end - place.rows.begin;
  const int64_t columns = place.columns.end - place.columns.begin;
  const int64_t rows_at_once = std::max<int64_t>(1, kPart / place.stride);
  const int64_t count = rows_at_once * place.stride;
  const size_t operands = operands_.size(), filled = operands + positions_.size();
  thread_local std::vector<float>
      memory;  // columns beyond the tile hold anything; callers ignore them
  memory.resize(std::max(memory.size(), (2 * filled + static_cast<size_t>(program.buffer_count())) *
                                            static_cast<size_t>(count)));
  float* buffers = memory.data() + 2 * filled * static_cast<size_t>(count);
  std::vector<PointwiseOperand> inputs(2 * program.input_count());
  for (int64_t row = 0; row < rows; row += rows_at_once) {
    const int64_t present = std::min(rows_at_once, rows - row);
    // Rows that are all alike are filled once per tile, and then copied.
    const auto fill_rows = [&](float* to, bool alike, int64_t lines, const auto& fill) {
      if (alike && row > 0) return;
      for (int64_t r = 0; r < lines; ++r) {
        float* line = to + r * place.stride;
        if (alike && r > 0)
          std::copy_n(to, columns, line);
        else
          fill(r, line);
      }
    };
    const auto from_row = [&](const float* tile) {
      return PointwiseOperand{tile == nullptr ? nullptr : tile + row * place.stride, false};
    };
    // The memory of an input, as numbers or as integers; null if it is not read.
    const auto memory_of = [&](size_t i, bool as_integers, bool same) -> float* {
      const size_t slot = i + 1 + (as_integers ? program.input_count() : 0);
      if (!program.reads(slot)) return nullptr;
      float* to = memory.data() + static_cast<int64_t>(as_integers ? filled + i : i) * count;
      inputs[slot] = {to, same};
      return to;
    };
    inputs[0] = from_row(scores);
    for (size_t i = 0; i < operands; ++i) {
      const TensorView& view = operands_[i];
      const int64_t row_stride = view.strides[place.rows_are_keys ? 3 : 2];
      const int64_t column_stride = view.strides[place.rows_are_keys ? 2 : 3];
      const int64_t head = function.batch * view.strides[0] + function.head * view.strides[1];
      const bool same = row_stride == 0 && column_stride == 0;
      const int64_t lines = same ? 1 : present, elements = same ? 1 : columns;
      const auto offset_of = [&](int64_t r) {
        return head + (place.rows.begin + row + r) * row_stride +
               place.columns.begin * column_stride;
      };
      if (float* to = memory_of(i, false, same))
        fill_rows(to, row_stride == 0, lines, [&](int64_t r, float* line) {
          widen_row(simd_, view.dtype, view.data, offset_of(r), column_stride, elements, line);
        });
      if (float* to = memory_of(i, true, same))
        fill_rows(to, row_stride == 0, lines, [&](int64_t r, float* line) {
          for (int64_t c = 0; c < elements; ++c)
            line[c] = std::bit_cast<float>(view.as<int32_t>()[offset_of(r) + c * column_stride]);
        });
    }
    for (size_t i = operands; i < filled; ++i) {
      const int axis = positions_[i - operands];
      const bool same = axis < 2, along_rows = (axis == 3) == place.rows_are_keys;
      const auto fill = [&](float* to, const auto& put) {
        if (to == nullptr) return;
        if (same) {
          *to = put(axis == 0 ? function.batch : function.head);
          return;
        }
        fill_rows(to, !along_rows, present, [&](int64_t r, float* line) {
          for (int64_t c = 0; c < columns; ++c)
            line[c] = put(along_rows ? place.rows.begin + row + r : place.columns.begin + c);
        });
      };
      fill(memory_of(i, false, same), [](int64_t at) { return static_cast<float>(at); });
      fill(memory_of(i, true, same),
           [](int64_t at) { return std::bit_cast<float>(static_cast<int32_t>(at)); });
    }
    if (filled + 1 < program.input_count()) inputs[filled + 1] = from_row(gradients);
    const int64_t elements = present * place.stride;
    if (use(row, elements, program.run(simd_, inputs, elements, buffers))) return;
  }
}

void ScoreTiles::apply(const FlashFunction& function, const FlashScores& place, float* scores) {
  const ScoreTiles& self = *static_cast<const ScoreTiles*>(function.self);
  self.for_each_part(self.value_, function, place, scores, scores,
                     [&](int64_t row, int64_t count, const float* result) {
                       std::copy_n(result, count, scores + row * place.stride);
                       return false;
                     });
}

void ScoreTiles::differentiate(const FlashFunction& function, const FlashScores& place,
                               const float* scores, float* gradients) {
  const ScoreTiles& self = *static_cast<const ScoreTiles*>(function.self);
  self.for_each_part(self.gradient_, function, place, scores, gradients,
                     [&](int64_t row, int64_t count, const float* result) {
                       std::copy_n(result, count, gradients + row * place.stride);
                       return false;
                     });
}

void ScoreTiles::add(const FlashFunction& function, const FlashScores& place, const float* scores,
                     float* gradients) {
  const ScoreTiles& self = *static_cast<const ScoreTiles*>(function.self);
  const int row_axis = place.rows_are_keys ? 3 : 2, column_axis = place.rows_are_keys ? 2 : 3;
  for (const OperandSum& each : self.sums_) {
    const Strides& strides = each.sums.strides;
    const auto kept = [&](int axis, int64_t position) {
      return each.operand[axis] == 1 ? 0 : position;
    };
    const bool along_diagonals = each.memory != nullptr;
    const auto along = [&](int axis, int64_t position) {
      if (along_diagonals)
        return axis == 2 ? -position : position / kScoreTile * strides[2] + position;
      return strides[axis] * (each.operand[axis] == 1 ? position / kScoreTile : position);
    };
    float* head = each.sums.as<float>() + strides[0] * kept(0, function.batch) +
                  strides[1] * kept(1, function.head) + (along_diagonals ? each.operand[2] - 1 : 0);
    self.for_each_part(each.program, function, place, scores, gradients,
                       [&](int64_t row, int64_t count, const float* result) {
                         for (int64_t r = 0; r < count / place.stride; ++r) {
                           float* to = head + along(row_axis, place.rows.begin + row + r);
                           const float* from = result + r * place.stride;
                           for (int64_t column = place.columns.begin; column < place.columns.end;
                                ++column)
                             to[along(column_axis, column)] += *from++;
                         }
                         return false;
                       });
  }
}

// A tile is hidden if one condition hides all of it; what several conditions hide together is not
// looked for.
bool ScoreTiles::sees(const FlashFunction& function, const FlashScores& place) {
  const ScoreTiles& self = *static_cast<const ScoreTiles*>(function.self);
  const int64_t columns = place.columns.end - place.columns.begin;
  static constexpr float kZero = 0;
  std::array<float, kPart> is_zero;
  return std::ranges::all_of(self.conditions_, [&](const Condition& condition) {
    bool any = false;
    self.for_each_part(
        condition.program, function, place, nullptr, nullptr,
        [&](int64_t, int64_t count, const float* result) {
          for (int64_t at = 0; at < count && !any; at += place.stride) {
            const PointwiseOperand compared[] = {{result + at, false}, {&kZero, true}, {}};
            self.simd_.pointwise(Op::equal, compared, is_zero.data(), columns);
            const float zeros = self.simd_.sum(is_zero.data(), columns);
            any = condition.wanted ? zeros < static_cast<float>(columns) : zeros > 0;
          }
          return any;
        });
    return any;
  });
}

}  // namespace ridgeline
