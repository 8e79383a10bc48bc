#include "plan/merge.h"

#include <algorithm>

namespace ridgeline {
namespace {

constexpr int64_t kMostQueries = 8;  // heads on one key head

class Merger {
 public:
  Merger(const Graph& graph, const std::vector<Layout>& layouts,
         std::span<const Group* const> kernels, const std::vector<bool>& may_merge)
      : graph_(graph), layouts_(layouts), kernels_(kernels), may_merge_(may_merge) {}

  std::vector<Merge> run() {
    std::vector<Merge> merges;
    uint32_t from = 0;  // kernels before it belong to a merge, or to none
    for (uint32_t i = 0; i < kernels_.size(); ++i) {
      const Group& group = *kernels_[i];
      if (group.kind != GroupKind::library || !may_merge_[i]) continue;
      const Node& node = graph_.nodes()[group.node];
      std::optional<Merge> merge;
      if (node.op == Op::matmul && !group.epilogue) merge = product(i, from);
      if (node.op == Op::attention) merge = attention(i, from);
      if (!merge) continue;
      from = merge->end;
      merges.push_back(std::move(*merge));
    }
    return merges;
  }

 private:
  const Layout& layout(Value value) const { return layouts_[graph_.index(value)]; }
  bool is_generated(uint32_t i, const Group& beside) const {
    const Group& group = *kernels_[i];
    return may_merge_[i] && group.kind == GroupKind::row && group.stage == beside.stage;
  }
  // Whether nobody but the kernels of a merge reads what they leave in a storage.
  bool is_read_inside(Value storage, uint32_t begin, uint32_t end) const {
    for (uint32_t i = 0; i < kernels_.size(); ++i)
      if ((i < begin || i >= end) &&
          std::ranges::find(kernels_[i]->reads, storage) != kernels_[i]->reads.end())
        return false;
    return std::ranges::none_of(graph_.outputs(), [&](const Output& output) {
      return layout(output.value).storage == storage;
    });
  }
  static uint32_t number_of(std::vector<Merge::Memory>& memory, Value storage, int64_t offset) {
    for (uint32_t i = 0; i < memory.size(); ++i)
      if (memory[i].storage == storage && memory[i].offset == offset) return i;
    memory.push_back({storage, offset});
    return static_cast<uint32_t>(memory.size()) - 1;
  }
  static bool is_small(const FusedKernel& kernel) {
    return std::ranges::none_of(kernel.inputs, &FusedOperand::is_position);
  }

  // The step from row to row of an operand that goes through all rows of a kernel in order.
  static std::optional<int64_t> pitch_of(const Shape& domain, const Strides& strides) {
    int64_t pitch = 0, rows = 1;
    for (int axis = domain.rank() - 2; axis >= 0; --axis) {
      if (domain[axis] == 1) continue;
      if (rows == 1) pitch = strides[axis];
      if (strides[axis] != pitch * rows) return std::nullopt;
      rows *= domain[axis];
    }
    return pitch;
  }

  std::optional<Merge> product(uint32_t number, uint32_t from) const {
    const Group& group = *kernels_[number];
    const Node& node = graph_.nodes()[group.node];
    const Value x = node.inputs[0], w = node.inputs[1],
                out = group.into.value_or(Value{group.node});
    const TensorType &x_type = graph_.type(x), &w_type = graph_.type(w);
    const int64_t depth = x_type.shape.back(), tokens = element_count(x_type.shape) / depth;
    const Layout& weights = layout(w);
    if (tokens > kMostMergedRows || w_type.shape.rank() != 2 || x_type.dtype != w_type.dtype ||
        (x_type.dtype != DType::bf16 && x_type.dtype != DType::f16) ||
        graph_.type(out).dtype != x_type.dtype || graph_.node(weights.storage).op != Op::input ||
        weights.strides.back(1) != 1 || !is_contiguous(x_type.shape, layout(x).strides))
      return std::nullopt;
    Merge merge{.kind = Merge::Kind::product, .begin = number, .end = number + 1, .main = number};
    if (tokens <= kMostPreparedRows && number > from && is_generated(number - 1, group))
      take_before(merge, number - 1, layout(x), tokens, depth);
    if (number + 1 < kernels_.size() && is_generated(number + 1, group))
      take_pair(merge, number + 1, out, w_type.shape.back());
    if (merge.end - merge.begin < 2) return std::nullopt;
    return merge;
  }

  // A kernel whose rows are those of x.
  void take_before(Merge& merge, uint32_t number, const Layout& x, int64_t tokens,
                   int64_t depth) const {
    const FusedKernel& kernel = kernels_[number]->kernel;
    if (!is_small(kernel) || kernel.columns() != depth || kernel.rows() != tokens ||
        make_walk(kernel).columns != depth || x.offset != 0)
      return;
    MergedKernel local{.kernel = number};
    std::vector<Merge::Memory> memory;
    for (const FusedOperand& input : kernel.inputs)
      local.inputs.push_back({true, number_of(memory, input.storage, input.offset)});
    std::optional<uint32_t> multiplied;
    for (uint32_t i = 0; i < kernel.results.size(); ++i) {
      const FusedOperand& to = kernel.results[i].to;
      if (to.storage == x.storage) {
        if (multiplied || to.offset != 0 || !is_contiguous(kernel.domain, to.strides) ||
            !is_read_inside(to.storage, number, merge.main + 1))
          return;
        multiplied = i;
        local.results.push_back({false, 0});
      } else {
        local.results.push_back({true, number_of(memory, to.storage, to.offset)});
      }
    }
    if (!multiplied || memory.size() > kMostMergedOperands) return;
    merge.begin = number;
    merge.x = *multiplied;
    merge.before = {std::move(local)};
    merge.memory = std::move(memory);
  }

  // A kernel that makes one number of both halves of a row of the product, which it alone reads.
  void take_pair(Merge& merge, uint32_t number, Value out, int64_t columns) const {
    const FusedKernel& kernel = kernels_[number]->kernel;
    const int64_t half = columns / 2;
    if (columns % 2 != 0 || kernel.has_folds() || kernel.results.size() != 1 || !is_small(kernel) ||
        kernel.columns() != half || !is_read_inside(out, merge.main, number + 1))
      return;
    std::vector<uint32_t> halves;
    for (const FusedOperand& input : kernel.inputs) {
      const auto pitch = pitch_of(kernel.domain, input.strides);
      const bool is_row = input.strides.back() == 1 && pitch && (*pitch == 0 || *pitch == columns);
      if (input.storage != out || !is_row || (input.offset != 0 && input.offset != half)) return;
      halves.push_back(input.offset == 0 ? 0 : 1);
    }
    const FusedOperand& to = kernel.results[0].to;
    if (to.offset != 0 || !is_contiguous(kernel.domain, to.strides) ||
        to.dtype != graph_.type(out).dtype ||
        element_count(graph_.type(to.storage).shape) != element_count(kernel.domain))
      return;
    merge.pair = number;
    merge.pair_halves = std::move(halves);
    merge.end = number + 1;
  }

  std::optional<Merge> attention(uint32_t number, uint32_t from) const {
    const Group& group = *kernels_[number];
    const Node& node = graph_.nodes()[group.node];
    const auto& spec = std::get<AttentionSpec>(node.attributes.detail);
    if (!spec.cached) return std::nullopt;
    const Value q = node.inputs[0], position = layout(node.inputs[3]).storage;
    const Value caches[] = {layout(node.inputs[1]).storage, layout(node.inputs[2]).storage};
    const Shape &q_shape = graph_.type(q).shape, &cache = graph_.type(caches[0]).shape;
    const DType dtype = graph_.type(q).dtype;
    if (q_shape[2] != 1 || cache.rank() != 4 || q_shape[1] / cache[1] > kMostQueries ||
        (dtype != DType::bf16 && dtype != DType::f16) || graph_.type(caches[0]).dtype != dtype ||
        q_shape[3] % 8 != 0)
      return std::nullopt;
    Merge merge{.kind = Merge::Kind::attention, .begin = number, .end = number + 1, .main = number};
    // Everything before it that could be part of it, as far as an append of both caches.
    std::optional<Value> rows[2];
    uint32_t first = number;
    while (first > from && (is_generated(first - 1, group) || is_append(first - 1, group))) --first;
    for (uint32_t i = first; i < number; ++i) {
      if (kernels_[i]->kind != GroupKind::library) continue;
      const Node& append = graph_.nodes()[kernels_[i]->node];
      for (int side = 0; side < 2; ++side)
        if (layout(append.inputs[0]).storage == caches[side] &&
            layout(append.inputs[2]).storage == position)
          rows[side] = append.inputs[1];
    }
    if (!rows[0] || !rows[1]) return std::nullopt;
    const int64_t heads = q_shape[0] * q_shape[1], key_heads = q_shape[0] * cache[1];
    for (uint32_t i = first; i < number; ++i) {
      if (kernels_[i]->kind == GroupKind::library) {
        const Value into = layout(graph_.nodes()[kernels_[i]->node].inputs[0]).storage;
        if (into != caches[0] && into != caches[1]) return std::nullopt;
      } else if (!take_rows(merge, i, first, heads, key_heads)) {
        return std::nullopt;
      }
    }
    // Queries and the newest key are whole rows of what is in shared memory.
    const auto row_of = [&](Value value, bool is_of_queries) -> std::optional<uint32_t> {
      const Layout& of = layout(value);
      const Shape& shape = graph_.type(value).shape;
      const bool is_row = of.offset == 0 && of.strides[3] == 1 &&
                          (shape[1] == 1 || of.strides[1] == shape[3]) &&
                          (shape[0] == 1 || of.strides[0] == shape[1] * shape[3]);
      for (uint32_t i = 0; i < merge.shared.size(); ++i)
        if (is_row && merge.shared[i].storage == of.storage &&
            merge.shared[i].elements == shape[3] && merge.shared[i].is_of_queries == is_of_queries)
          return i;
      return std::nullopt;
    };
    const auto query_rows = row_of(q, true), key_rows = row_of(*rows[0], false);
    const Layout& values = layout(*rows[1]);
    const bool values_in_memory = std::ranges::none_of(
        merge.shared, [&](const MergedRows& each) { return each.storage == values.storage; });
    if (!query_rows || !key_rows || !values_in_memory || values.strides[3] != 1 ||
        graph_.type(*rows[1]).dtype != dtype)
      return std::nullopt;
    merge.begin = first;
    merge.query_rows = *query_rows;
    merge.key_rows = *key_rows;
    merge.value_rows = *rows[1];
    return merge;
  }

  bool is_append(uint32_t i, const Group& beside) const {
    const Group& group = *kernels_[i];
    return may_merge_[i] && group.kind == GroupKind::library && group.stage == beside.stage &&
           graph_.nodes()[group.node].op == Op::append;
  }

  // A kernel with a row for each head: every block computes those of its key head.
  bool take_rows(Merge& merge, uint32_t number, uint32_t begin, int64_t heads,
                 int64_t key_heads) const {
    const FusedKernel& kernel = kernels_[number]->kernel;
    if (!is_small(kernel) || (kernel.rows() != heads && kernel.rows() != key_heads) ||
        make_walk(kernel).columns != kernel.columns())
      return false;
    MergedKernel local{.kernel = number, .is_of_queries = kernel.rows() == heads};
    for (const FusedOperand& input : kernel.inputs) {
      const auto shared = std::ranges::find(merge.shared, input.storage, &MergedRows::storage);
      if (shared == merge.shared.end()) {
        local.inputs.push_back({true, number_of(merge.memory, input.storage, input.offset)});
        continue;
      }
      if (shared->is_of_queries != local.is_of_queries ||
          pitch_of(kernel.domain, input.strides).value_or(-1) != pitch_in(*shared, kernel))
        return false;
      const auto which = static_cast<uint32_t>(shared - merge.shared.begin());
      local.inputs.push_back({false, which});
      for (const MergedKernel& other : merge.before)
        for (const MergedKernel::Place& result : other.results)
          if (result.number == which) local.level = std::max(local.level, other.level + 1);
    }
    for (const FusedResult& result : kernel.results) {
      const int64_t elements = element_count(graph_.type(result.to.storage).shape);
      MergedRows rows{result.to.storage, elements / kernel.rows(), local.is_of_queries};
      if (elements % kernel.rows() != 0 || !is_read_inside(rows.storage, begin, merge.main + 1) ||
          pitch_of(kernel.domain, result.to.strides).value_or(-1) != pitch_in(rows, kernel))
        return false;
      const auto known = std::ranges::find(merge.shared, rows.storage, &MergedRows::storage);
      if (known == merge.shared.end()) {
        local.results.push_back({false, static_cast<uint32_t>(merge.shared.size())});
        merge.shared.push_back(rows);
      } else {
        local.results.push_back({false, static_cast<uint32_t>(known - merge.shared.begin())});
      }
    }
    merge.before.push_back(std::move(local));
    return merge.memory.size() <= kMostMergedOperands;
  }
  static int64_t pitch_in(const MergedRows& rows, const FusedKernel& kernel) {
    return kernel.rows() == 1 ? 0 : rows.elements;
  }

  const Graph& graph_;
  const std::vector<Layout>& layouts_;
  std::span<const Group* const> kernels_;
  const std::vector<bool>& may_merge_;
};

}  // namespace

std::vector<Merge> find_merges(const Graph& graph, const std::vector<Layout>& layouts,
                               std::span<const Group* const> kernels,
                               const std::vector<bool>& may_merge) {
  return Merger(graph, layouts, kernels, may_merge).run();
}

}  // namespace ridgeline
