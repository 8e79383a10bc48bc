#include "plan/resident.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ridgeline {
namespace {

constexpr int64_t kAlignment = 16;  // of values, in bytes

class ResidentPlanner {
 public:
  ResidentPlanner(const Graph& graph, const Plan& plan) : graph_(graph), plan_(plan) {}

  std::optional<ResidentPlan> run(std::string& why) {
    if (plan_.stages.size() > 1) {  // which run one by one
      why = "the graph has several stages";
      return std::nullopt;
    }
    for (uint32_t i = 0; i < plan_.kernels.size(); ++i)
      if (!take(i)) break;
    const auto last = std::find_if(result_.steps.rbegin(), result_.steps.rend(), [](const auto& s) {
      return s.kind == ResidentStep::Kind::product && s.is_last;
    });
    if (last == result_.steps.rend()) {
      why = refusal_.empty() ? "no product ends what can stay" : refusal_;
      return std::nullopt;
    }
    if (!leaves_nothing_behind(why) || !place_values(why)) return std::nullopt;
    result_.repeats = can_repeat();
    for (const ResidentStep& step : result_.steps)
      result_.side_bytes = std::max(result_.side_bytes, step.side_bytes);
    return std::move(result_);
  }

 private:
  struct Held {                    // a value in shared memory
    uint32_t first = 0, last = 0;  // steps
    int64_t bytes = 0, offset = 0;
  };
  struct Place {  // of ResidentStep::at
    uint32_t step;
    size_t number;
    uint32_t storage;
    int64_t offset;  // in bytes
  };

  bool refuse(std::string why) {
    refusal_ = std::move(why);
    return false;
  }
  const Layout& layout(Value value) const { return plan_.layouts[graph_.index(value)]; }
  bool is_held(Value storage) const { return held_.contains(graph_.index(storage)); }
  bool is_input(Value storage) const { return graph_.node(storage).op == Op::input; }
  bool is_vector(Value value) const {
    return is_contiguous(graph_.type(value).shape, layout(value).strides);
  }

  ResidentStep& add(ResidentStep::Kind kind) {
    result_.steps.push_back({.kind = kind});
    return result_.steps.back();
  }
  uint32_t current() const { return static_cast<uint32_t>(result_.steps.size()) - 1; }
  uint32_t read(Value storage, int64_t offset, DType dtype) {
    held_.at(graph_.index(storage)).last = current();
    return place(storage, offset, dtype);
  }
  uint32_t read(Value value) {
    return read(layout(value).storage, layout(value).offset, graph_.type(value).dtype);
  }
  uint32_t write(Value storage, int64_t elements, DType dtype, int64_t offset = 0) {
    Held& held = held_[graph_.index(storage)];
    if (held.bytes == 0) held = {current(), current(), elements * info(dtype).size};
    return place(storage, offset, dtype);
  }
  // The same place of the same step has one number.
  uint32_t place(Value storage, int64_t offset, DType dtype) {
    ResidentStep& step = result_.steps.back();
    for (const Place& known : places_)
      if (known.step == current() && known.storage == graph_.index(storage) &&
          known.offset == offset * info(dtype).size)
        return static_cast<uint32_t>(known.number);
    places_.push_back(
        {current(), step.at.size(), graph_.index(storage), offset * info(dtype).size});
    step.at.push_back(0);
    return static_cast<uint32_t>(step.at.size()) - 1;
  }

  bool take(uint32_t number) {
    const Group& group = plan_.kernels[number].group;
    if (!result_.steps.empty() && result_.steps.back().is_last) {
      if (group.kind != GroupKind::library || !take_ending(graph_.nodes()[group.node]))
        return false;
      result_.kernels = number + 1;
      return true;
    }
    const size_t before = result_.steps.size(), places = places_.size();
    bool taken = false;
    if (group.kind == GroupKind::row) {
      taken = take_pair(number) || take_local(number);
    } else if (group.kind == GroupKind::library) {
      const Node& node = graph_.nodes()[group.node];
      if (node.op == Op::gather) taken = take_gather(node);
      if (node.op == Op::matmul && !group.epilogue) taken = take_product(group, node);
      if (node.op == Op::append) taken = take_append(node);
      if (node.op == Op::attention) taken = take_attention(group.node, node);
      if (node.op == Op::advance) taken = take_advance(node);
      if (!taken && refusal_.empty())
        refuse(fmt::format("{} is no part of it", info(node.op).name));
    } else {
      refuse("a fold of columns is no part of it");
    }
    if (taken) {
      result_.kernels = number + 1;
    } else if (result_.steps.size() > before) {
      result_.steps.resize(before);
      places_.resize(places);
    }
    return taken;
  }

  bool take_gather(const Node& node) {
    const Value table = node.inputs[0], index = node.inputs[1], row{node_number(node), 0};
    const TensorType& type = graph_.type(table);
    if (!is_input(layout(table).storage) || !is_input(layout(index).storage) ||
        element_count(graph_.type(index).shape) != 1 || layout(table).strides.back() != 1 ||
        type.dtype != DType::bf16)
      return refuse("a gather of several rows, or not of bf16 ones of an input");
    ResidentStep& step = add(ResidentStep::Kind::gather);
    step.weights = layout(table).storage;
    step.weights_offset = layout(table).offset;
    step.rows = type.shape[0];
    step.depth = type.shape[1];
    step.index = layout(index).storage;
    write(row, step.depth, type.dtype);
    return true;
  }

  bool take_product(const Group& group, const Node& node) {
    const Value x = node.inputs[0], w = node.inputs[1];
    const TensorType &x_type = graph_.type(x), &w_type = graph_.type(w);
    const int64_t depth = x_type.shape.back();
    const Value out = group.into.value_or(Value{group.node, 0});
    if (x_type.dtype != DType::bf16 || w_type.dtype != DType::bf16 ||
        graph_.type(out).dtype != DType::bf16)
      return refuse("a product that is not of bf16");
    if (element_count(x_type.shape) != depth || !is_held(layout(x).storage) || !is_vector(x))
      return refuse("a product of more than one row, or of one that is not computed inside");
    const int64_t rows = w_type.shape.back();
    const Strides& strides = layout(w).strides;
    if (!is_input(layout(w).storage) || strides.back(1) != 1 || strides.back() != depth ||
        rows % 4 != 0 || depth % 16 != 0)
      return refuse("a product whose weights are not the rows of an input");
    ResidentStep& step = add(ResidentStep::Kind::product);
    step.weights = layout(w).storage;
    step.weights_offset = layout(w).offset;
    step.rows = rows;
    step.depth = depth;
    read(x);
    // The head is what no kernel but an argmax reads.
    bool is_read = false;
    for (uint32_t other = 0; other < plan_.kernels.size(); ++other) {
      const Group& reader = plan_.kernels[other].group;
      const bool reads = std::ranges::find(reader.reads, out) != reader.reads.end();
      const bool is_argmax =
          reader.kind == GroupKind::library && graph_.nodes()[reader.node].op == Op::argmax;
      is_read = is_read || (reads && !is_argmax);
    }
    if (!is_read) {
      result_.steps.back().is_last = true;
      for (const Output& output : graph_.outputs())
        if (layout(output.value).storage == out) result_.steps.back().stored = out;
      last_ = out;
      return true;
    }
    write(out, rows, DType::bf16);
    product_ = out;
    return true;
  }

  // A kernel that makes one number of the two halves of the product before it, and is alone to read
  // it.
  bool take_pair(uint32_t number) {
    const FusedKernel& kernel = plan_.kernels[number].group.kernel;
    if (result_.steps.empty() || result_.steps.back().kind != ResidentStep::Kind::product ||
        result_.steps.back().pair || kernel.has_folds() || kernel.results.size() != 1)
      return false;
    ResidentStep& step = result_.steps.back();
    const int64_t half = step.rows / 2;
    if (step.rows % 8 != 0 || element_count(kernel.domain) != half) return false;
    const auto is_whole = [&](const FusedOperand& operand) {
      return operand.dtype == DType::bf16 && is_contiguous(kernel.domain, operand.strides);
    };
    for (const FusedOperand& input : kernel.inputs)
      if (input.is_position || input.storage != product_ || !is_whole(input) ||
          (input.offset != 0 && input.offset != half))
        return false;
    if (!is_whole(kernel.results[0].to) || kernel.results[0].to.offset != 0) return false;
    for (uint32_t other = 0; other < plan_.kernels.size(); ++other)
      if (other != number && std::ranges::find(plan_.kernels[other].group.reads, product_) !=
                                 plan_.kernels[other].group.reads.end())
        return false;
    held_.erase(graph_.index(product_));
    places_.pop_back();
    step.at.pop_back();
    step.pair = ResidentLocal{.kernel = number};
    for (const FusedOperand& input : kernel.inputs)
      step.pair->inputs.push_back({.number = input.offset == 0 ? 0u : 1u});
    write(kernel.results[0].to.storage, half, DType::bf16);
    return true;
  }

  bool take_local(uint32_t number) {
    const FusedKernel& kernel = plan_.kernels[number].group.kernel;
    if (element_count(kernel.domain) > 1 << 16)
      return refuse("a generated kernel of many elements");
    if (result_.steps.empty() || result_.steps.back().kind != ResidentStep::Kind::local)
      return take_local_into(number, true);
    return take_local_into(number, false) || take_local_into(number, true);
  }
  bool take_local_into(uint32_t number, bool fresh) {
    const FusedKernel& kernel = plan_.kernels[number].group.kernel;
    if (fresh) {
      add(ResidentStep::Kind::local);
      writers_.clear();
    }
    ResidentStep& step = result_.steps.back();
    std::vector<Value> sides = step.sides;
    std::vector<int64_t> side_offsets = step.side_offsets;
    int64_t side_bytes = step.side_bytes;
    ResidentLocal local{.kernel = number};
    std::vector<const FusedOperand*> shared;
    for (const FusedOperand& input : kernel.inputs) {
      if (input.is_position) {
        local.inputs.push_back({ResidentOperand::Kind::position, 0});
      } else if (is_held(input.storage)) {
        local.inputs.push_back({ResidentOperand::Kind::shared, 0});
        shared.push_back(&input);
        const auto writer = writers_.find(graph_.index(input.storage));
        if (writer != writers_.end()) local.level = std::max(local.level, writer->second + 1);
      } else if (is_side(kernel, input)) {
        const auto found = std::ranges::find(sides, input.storage);
        local.inputs.push_back(
            {ResidentOperand::Kind::side, static_cast<uint32_t>(found - sides.begin())});
        if (found == sides.end()) {
          sides.push_back(input.storage);
          side_offsets.push_back(side_bytes);
          side_bytes += byte_size(graph_.type(input.storage)).count;
        }
      } else {
        return refuse("a generated kernel that reads more than values inside and vectors");
      }
    }
    for (const FusedResult& result : kernel.results) shared.push_back(&result.to);
    size_t added = 0;
    for (const FusedOperand* operand : shared)
      added += std::ranges::none_of(places_, [&](const Place& known) {
        return known.step == current() && known.storage == graph_.index(operand->storage) &&
               known.offset == operand->offset * info(operand->dtype).size;
      });
    if (sides.size() > kMostResidentSides || step.at.size() + added > kMostResidentOperands)
      return false;
    size_t next = 0;
    for (ResidentOperand& operand : local.inputs)
      if (operand.kind == ResidentOperand::Kind::shared) {
        const FusedOperand& from = *shared[next++];
        operand.number = read(from.storage, from.offset, from.dtype);
      }
    for (const FusedResult& result : kernel.results) {
      const Value storage = result.to.storage;
      const int64_t elements = element_count(graph_.type(storage).shape);
      local.results.push_back({ResidentOperand::Kind::shared,
                               write(storage, elements, result.to.dtype, result.to.offset)});
      writers_[graph_.index(storage)] = local.level;
    }
    step.sides = std::move(sides);
    step.side_offsets = std::move(side_offsets);
    step.side_bytes = side_bytes;
    step.locals.push_back(std::move(local));
    return true;
  }
  // A vector of an input along the columns, the same for all rows.
  bool is_side(const FusedKernel& kernel, const FusedOperand& input) const {
    if (!is_input(input.storage) || input.offset % 8 != 0) return false;
    const TensorType& type = graph_.type(input.storage);
    return byte_size(type).count <= 16384 && byte_size(type).count % 16 == 0 &&
           element_count(type.shape) == type.shape.back() && kernel.columns() > 1;
  }

  bool take_append(const Node& node) {
    const Value cache = node.inputs[0], rows = node.inputs[1];
    const TensorType& type = graph_.type(cache);
    if (!is_input(layout(cache).storage) || type.shape.rank() != 4 || type.dtype != DType::bf16 ||
        graph_.type(rows).shape.back(1) != 1 || !is_held(layout(rows).storage) || !is_vector(rows))
      return refuse("an append that is not of one key or value that is computed inside");
    if (!appended_.emplace(graph_.index(layout(cache).storage), &node).second)
      return refuse("a second append to a cache");
    return true;
  }

  bool take_attention(uint32_t number, const Node& node) {
    const auto& spec = std::get<AttentionSpec>(node.attributes.detail);
    const Value q = node.inputs[0], keys = layout(node.inputs[1]).storage,
                values = layout(node.inputs[2]).storage;
    const Shape &q_shape = graph_.type(q).shape, &cache = graph_.type(keys).shape;
    if (!spec.cached || q_shape.back(1) != 1 || q_shape[0] != 1)
      return refuse("an attention of more than one query");
    if (!appended_.contains(graph_.index(keys)) || !appended_.contains(graph_.index(values)) ||
        !is_held(layout(q).storage) || !is_vector(q))
      return refuse("an attention whose newest key and value are not computed inside");
    const int64_t dim = q_shape.back(), group = q_shape[1] / cache[1];
    if (dim % 128 != 0 || dim > 256 || group > 8 || cache[2] % 64 != 0)
      return refuse(fmt::format("{} query heads on a key head, {} numbers wide, with {} slots",
                                group, dim, cache[2]));
    if (result_.head_dim != 0 && (result_.head_dim != dim || result_.group != group ||
                                  result_.key_heads != cache[1] || result_.scale != spec.scale))
      return refuse("attentions of different kinds");
    result_.head_dim = dim;
    result_.group = group;
    result_.key_heads = cache[1];
    result_.scale = spec.scale;
    const Node &key = *appended_.at(graph_.index(keys)),
               &value = *appended_.at(graph_.index(values));
    const Value position = layout(node.inputs[3]).storage;
    if (result_.position.value_or(position) != position ||
        layout(key.inputs[2]).storage != position || layout(value.inputs[2]).storage != position)
      return refuse("appends or attentions at different positions");
    result_.position = position;
    ResidentStep& step = add(ResidentStep::Kind::attention);
    step.node = number;
    step.keys = keys;
    step.values = values;
    step.slots = cache[2];
    step.window = spec.mask.window;
    read(q);
    read(key.inputs[1]);
    read(value.inputs[1]);
    write({number, 0}, element_count(q_shape), DType::bf16);
    return true;
  }

  // What follows the last product: where its largest element is, and what becomes of that.
  bool take_ending(const Node& node) {
    if (node.op == Op::argmax) return take_argmax(node);
    if (node.op == Op::append) return take_store(node);
    return node.op == Op::advance && take_advance(node);
  }
  bool take_argmax(const Node& node) {
    const Value x = node.inputs[0];
    ResidentStep& step = result_.steps.back();
    if (layout(x).storage != last_ || step.largest || !is_vector(x)) return false;
    step.largest = Value{node_number(node), 0};
    return true;
  }
  bool take_store(const Node& node) {
    const Value to = layout(node.inputs[0]).storage;
    const Shape& slots = graph_.type(node.inputs[0]).shape;
    if (!result_.steps.back().largest || !is_position(node.inputs[2]) || !is_input(to) ||
        layout(node.inputs[1]).storage != *result_.steps.back().largest ||
        element_count(slots) != slots.back(1) || result_.advance != 0 ||
        result_.stores.size() == kMostResidentStores)
      return false;
    result_.stores.push_back({to, slots.back(1)});
    return true;
  }
  // Everybody who reads the position comes before, so that it may as well grow in the end.
  bool take_advance(const Node& node) {
    if (!is_position(node.inputs[0]) || result_.advance != 0) return false;
    result_.advance = std::get<RowCount>(node.attributes.detail).count;
    return true;
  }
  bool is_position(Value value) const {
    return result_.position && layout(value).storage == *result_.position;
  }

  bool can_repeat() const {
    if (result_.kernels != plan_.kernels.size() || result_.advance != 1) return false;
    const auto is_stored = [&](Value index) {
      return std::ranges::any_of(result_.stores, [&](const ResidentStore& store) {
        return store.to == index && store.slots == 1;
      });
    };
    return std::ranges::all_of(result_.steps, [&](const ResidentStep& step) {
      return step.kind != ResidentStep::Kind::gather || step.index == *result_.position ||
             is_stored(step.index);
    });
  }

  uint32_t node_number(const Node& node) const {
    return static_cast<uint32_t>(&node - graph_.nodes().data());
  }

  // What shared memory holds must not be wanted outside, and an append is stored by its attention.
  bool leaves_nothing_behind(std::string& why) {
    std::vector<Value> wanted;
    for (size_t i = result_.kernels; i < plan_.kernels.size(); ++i)
      for (Value storage : plan_.kernels[i].group.reads) wanted.push_back(storage);
    for (const Output& output : graph_.outputs()) wanted.push_back(layout(output.value).storage);
    for (Value storage : wanted) {
      if (is_held(storage)) {
        why = fmt::format("{} is read outside", graph_.name(storage));
        return false;
      }
      if (storage == last_) result_.steps.back().stored = last_;
    }
    for (const auto& [cache, append] : appended_) {
      const auto stores = [&, cache = cache](const ResidentStep& step) {
        return step.kind == ResidentStep::Kind::attention &&
               (graph_.index(step.keys) == cache || graph_.index(step.values) == cache);
      };
      if (std::ranges::none_of(result_.steps, stores)) {
        why = fmt::format("no attention reads what {} appends",
                          graph_.name({node_number(*append), 0}));
        return false;
      }
    }
    return true;
  }

  // First fit, in the order of steps.
  bool place_values(std::string& why) {
    std::vector<Held*> all;
    for (auto& [index, held] : held_) all.push_back(&held);
    std::ranges::sort(all, {},
                      [](const Held* held) { return std::pair(held->first, -held->bytes); });
    std::vector<const Held*> placed;
    for (Held* held : all) {
      const int64_t bytes = (held->bytes + kAlignment - 1) / kAlignment * kAlignment;
      std::vector<const Held*> beside;
      for (const Held* other : placed)
        if (other->last >= held->first && held->last >= other->first) beside.push_back(other);
      std::ranges::sort(beside, {}, &Held::offset);
      int64_t offset = 0;
      for (const Held* other : beside) {
        if (other->offset >= offset + bytes) break;
        const int64_t end =
            other->offset + (other->bytes + kAlignment - 1) / kAlignment * kAlignment;
        offset = std::max(offset, end);
      }
      held->offset = offset;
      result_.value_bytes = std::max(result_.value_bytes, offset + bytes);
      placed.push_back(held);
    }
    for (const Place& place : places_) {
      const int64_t offset = held_.at(place.storage).offset + place.offset;
      if (offset % 8 != 0) {
        why = "a value that begins in the middle of a pack";
        return false;
      }
      result_.steps[place.step].at[place.number] = offset;
    }
    return true;
  }

  const Graph& graph_;
  const Plan& plan_;
  ResidentPlan result_;
  std::string refusal_;
  std::map<uint32_t, Held> held_;  // by Graph::index of the storage
  std::vector<Place> places_;
  std::map<uint32_t, uint32_t> writers_;      // of the local step: levels
  std::map<uint32_t, const Node*> appended_;  // the append to each cache
  Value product_, last_;
};

}  // namespace

std::optional<ResidentPlan> make_resident(const Graph& graph, const Plan& plan, std::string& why) {
  return ResidentPlanner(graph, plan).run(why);
}

}  // namespace ridgeline
