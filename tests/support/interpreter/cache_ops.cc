// Ops on a cache, by definition: argmax, append, advance, ring_positions, attention over a cache.
#include <algorithm>
#include <cmath>
#include <limits>

#include "support/interpreter/evaluators.h"

namespace ridgeline::reference {
namespace {

int64_t first_position(const Operand& position) {
  return static_cast<int64_t>(position.data[0]);
}

}  // namespace

Data argmax(const Call& call) {
  const Operand& x = call.inputs[0];
  const auto width = static_cast<size_t>(x.shape[1]);
  return fill(call.shape, [&](const Dims& at) {
    const double* row = &x.data[static_cast<size_t>(at[0]) * width];
    size_t best = 0;
    for (size_t i = 1; i < width; ++i)
      if (row[i] > row[best] || (std::isnan(row[i]) && !std::isnan(row[best]))) best = i;
    return static_cast<double>(best);
  });
}

Data append(const Call& call) {
  const Operand &cache = call.inputs[0], &rows = call.inputs[1];
  Data result = cache.data;
  for (int64_t flat = 0; flat < static_cast<int64_t>(rows.data.size()); ++flat) {
    Dims at = coordinates(rows.shape, flat);
    at.back(1) = (first_position(call.inputs[2]) + at.back(1)) % cache.shape.back(1);
    result[static_cast<size_t>(flat_index(cache.shape, at))] =
        rows.data[static_cast<size_t>(flat)];  // later rows overwrite earlier ones
  }
  return result;
}

Data advance(const Call& call) {
  const int64_t count = std::get<RowCount>(call.node.attributes.detail).count;
  return {static_cast<double>(first_position(call.inputs[0]) + count)};
}

Data ring_positions(const Call& call) {
  const int64_t count = std::get<RowCount>(call.node.attributes.detail).count;
  const int64_t last = first_position(call.inputs[0]) + count - 1;
  return fill(call.shape, [&](const Dims& at) {
    return static_cast<double>(position_in_slot(last, at[0], call.shape[0]));
  });
}

Results cached_attention(const Call& call) {
  const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
  const Operand &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2];
  const int64_t heads = q.shape[1], queries = q.shape[2], width = q.shape[3];
  const int64_t key_heads = k.shape[1], slots = k.shape[2];
  const int64_t first = first_position(call.inputs[3]), last = first + queries - 1;
  const auto at = [](const Operand& x, const Dims& place) {
    return x.data[static_cast<size_t>(flat_index(x.shape, place))];
  };
  Data output(q.data.size(), 0.0), log_sum_exps;
  for (int64_t row = 0; row < q.shape[0] * heads * queries; ++row) {
    const int64_t batch = row / (heads * queries), head = row / queries % heads,
                  query = row % queries, key_head = head / (heads / key_heads);
    std::vector<int64_t> visible;
    Data scores;
    for (int64_t slot = 0; slot < slots; ++slot) {
      const int64_t position = position_in_slot(last, slot, slots);
      const bool is_recent = spec.mask.window == 0 || position > first + query - spec.mask.window;
      if (position < 0 || position > first + query || !is_recent) continue;
      double score = 0;
      for (int64_t c = 0; c < width; ++c)
        score += at(q, {batch, head, query, c}) * at(k, {batch, key_head, slot, c});
      visible.push_back(slot);
      scores.push_back(spec.scale * score);
    }
    double largest = -std::numeric_limits<double>::infinity(), total = 0;
    for (double score : scores) largest = std::max(largest, score);
    for (double& score : scores)
      total += score = std::isinf(largest) ? 0 : std::exp(score - largest);
    for (size_t j = 0; j < visible.size(); ++j)
      for (int64_t c = 0; c < width && total != 0; ++c)
        output[static_cast<size_t>(row * width + c)] +=
            scores[j] / total * at(v, {batch, key_head, visible[j], c});
    log_sum_exps.push_back(largest + std::log(total));
  }
  return {std::move(output), std::move(log_sum_exps)};
}

}  // namespace ridgeline::reference
