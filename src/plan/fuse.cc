#include "plan/fuse.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/enum_names.h"
#include "base/error.h"
#include "passes/rewrite.h"
#include "plan/fuser.h"
#include "plan/op_text.h"
#include "plan/reduction.h"

namespace ridgeline {
Fuser::Fuser(const Graph& graph) : graph_(graph), facts_(graph.value_count()) {
  result_.layouts = layouts(graph, {.token_major = true});
  for (uint32_t number = 0; number < graph.nodes().size(); ++number)
    for (uint32_t output = 0; output < graph.nodes()[number].outputs.size(); ++output)
      values_.push_back({number, output});
  uses_ = use_counts(graph);
  find_nested_concats();
}

// Computes the value in a group; taken back if something cannot be had there.
bool Fuser::add_node(uint32_t group, Value value, const Work& work) {
  Draft& draft = *drafts_[group];
  const Node& node = graph_.node(value);
  const auto access = access_in_domain(work.domain, draft.domain());
  if (!access) {
    why_ = FusionRefusal::different_shape;
    return false;
  }
  const Draft::Mark mark = draft.mark();
  const auto add = [&]() -> bool {
    if (node.op == Op::iota) return resolve(group, value, *access).has_value();
    const bool folds = !is_pointwise(value);
    if (!folds && node.op != Op::reshape) {
      Access own = *access;
      if (type(value).shape != work.domain) own.push_back({.shape = work.domain});
      const auto seen = see_through(contiguous(type(value).shape), own);
      if (!seen) return why_ = FusionRefusal::read_otherwise, false;
      const auto step = compute(group, value, own);
      if (step) draft.name_step({graph_.index(value), seen->offset, seen->strides}, *step);
      return step.has_value();
    }
    Access inner = *access;
    if (type(node.inputs[0]).shape != work.domain) inner.push_back({.shape = work.domain});
    const auto operand = resolve(group, node.inputs[0], inner);
    if (!operand) return false;
    if (!folds) {  // a reshape that copies: the elements in the order in which the operand has them
      const auto seen = see_through(contiguous(work.domain), *access);
      draft.name_step({graph_.index(value), 0, seen->strides}, *operand);
      return true;
    }
    const uint32_t step = draft.add({.kind = FusedStep::Kind::fold,
                                     .op = node.op,
                                     .dtype = type(value).dtype,
                                     .inputs = {*operand},
                                     .value = value});
    Shape rows = draft.domain();
    rows.back() = 1;
    const auto seen =
        see_through(contiguous(rows), {{.broadcasts = true, .shape = draft.domain()}});
    if (work.kind == GroupKind::row) {
      draft.name_step({graph_.index(value), 0, seen->strides}, step);
    } else {
      facts(value).home = static_cast<int32_t>(group);
      facts(value).step = step;
    }
    return true;
  };
  if (add()) {
    settle(group, mark);
    return true;
  }
  draft.roll_back(mark);
  return false;
}

// Notes where values live that a group now computes, and has what it reads stored.
void Fuser::settle(uint32_t group, const Draft::Mark& mark) {
  Draft& draft = *drafts_[group];
  FusedKernel& kernel = draft.group.kernel;
  for (size_t i = mark.named; i < draft.named().size(); ++i) {
    const auto& [seen, step] = draft.named()[i];
    Facts& of = facts_[seen.value];
    if (of.home != kNowhere || draft.group.kind == GroupKind::column) continue;
    const int64_t count = element_count(type(values_[seen.value]).shape);
    const bool is_whole = (count == kernel.rows() * kernel.columns() && draft.covers_all(seen)) ||
                          (count == kernel.rows() && draft.covers_rows(seen));
    if (!is_whole) continue;
    of.home = static_cast<int32_t>(group);
    of.step = step;
  }
  for (size_t i = mark.steps; i < kernel.steps.size(); ++i) {
    if (kernel.steps[i].kind != FusedStep::Kind::load) continue;
    const Value value = kernel.steps[i].value;
    if (kernel.inputs[kernel.steps[i].operand].is_position) continue;
    store(value);
    facts(value).last_reader = static_cast<int32_t>(group);
  }
}

bool Fuser::try_join(uint32_t group, Value value, const Work& work) {
  const Group& of = drafts_[group]->group;
  why_ = FusionRefusal::read_otherwise;
  bool joins = false;
  if (of.kind == GroupKind::library) {
    why_ = FusionRefusal::library_call;
  } else if (of.stage != stage_) {
    why_ = FusionRefusal::different_stage;
  } else if (of.kind != work.kind) {
    why_ = FusionRefusal::different_shape;
  } else if (of.kernel.steps.size() >= kMostSteps) {
    why_ = FusionRefusal::too_large;
  } else {
    joins = add_node(group, value, work);
  }
  if (!joins) result_.refusals.push_back({value, group, why_});
  return joins;
}

// Groups that compute operands, or read the same tensors; youngest first.
std::vector<uint32_t> Fuser::candidates(Value value, const Work& work) {
  std::vector<uint32_t> found;
  const double least = 0.5 * static_cast<double>(element_count(work.domain));
  std::vector<Value> open(graph_.node(value).inputs);
  std::vector<Value> seen;
  while (!open.empty() && seen.size() < 2 * kWaitingWeight) {
    const Value top = behind_views(open.back());
    open.pop_back();
    if (std::find(seen.begin(), seen.end(), top) != seen.end()) continue;
    seen.push_back(top);
    const Facts& of = facts(top);
    const auto offer = [&](int32_t group) {
      const auto number = static_cast<uint32_t>(group);
      if (group >= 0 && std::find(found.begin(), found.end(), number) == found.end())
        found.push_back(number);
    };
    offer(of.home);
    const bool is_recent =
        of.last_reader + static_cast<int32_t>(kRecent) >= static_cast<int32_t>(drafts_.size());
    const bool is_large = static_cast<double>(element_count(type(top).shape)) >= least;
    // The same walk over other tensors saves a launch, if nothing else.
    if (is_recent && of.last_reader >= 0 &&
        (is_large || drafts_[static_cast<size_t>(of.last_reader)]->domain() == work.domain))
      offer(of.last_reader);
    if (is_pointwise(top) && graph_.node(top).op != Op::input && of.home == kNowhere)
      open.insert(open.end(), graph_.node(top).inputs.begin(), graph_.node(top).inputs.end());
  }
  std::sort(found.rbegin(), found.rend());
  if (found.size() > kCandidates) found.resize(kCandidates);
  return found;
}

// Finds or makes the group that computes a value. False: its axes cannot be folded together.
bool Fuser::place_if_possible(Value value) {
  const Work work = work_of(value);
  for (uint32_t group : candidates(value, work))
    if (try_join(group, value, work)) return true;
  while (true) {
    const auto group = static_cast<uint32_t>(drafts_.size());
    drafts_.push_back(std::make_unique<Draft>(work.kind, stage_, work.domain));
    drafts_.back()->group.node = value.node;
    if (add_node(group, value, work)) return true;
    drafts_.pop_back();
    if (!place_operand(value)) return false;
  }
}

// An operand that cannot be had in this order, or with so many others, is written by a kernel of
// its own: a node whose operands are all in memory can be computed. False: none of them waits.
bool Fuser::place_operand(Value value) {
  std::vector<Value> waiting;
  for (Value input : graph_.node(value).inputs) {
    const Value operand = behind_views(input);
    if (facts(operand).home == kNowhere && facts(operand).waiting_weight > 0)
      waiting.push_back(operand);
  }
  if (waiting.empty()) return false;
  const auto blocking = std::find(waiting.begin(), waiting.end(), blocked_by_);
  place(blocking != waiting.end() ? *blocking : waiting[0]);
  return true;
}

// Whatever waits can be had at any time.
void Fuser::place(Value value) {
  if (graph_.node(value).op == Op::concat) return put_together(value.node);
  if (!place_if_possible(value) || facts(value).home == kNowhere)
    throw Error(ErrorKind::internal,
                fmt::format("no kernel can compute '{}': {}", graph_.name(value), text_of(why_)));
}

// Has a value written by its home.
void Fuser::store(Value value) {
  Facts& of = facts(value);
  const Op op = graph_.node(value).op;
  if (of.stored || op == Op::input || op == Op::constant) return;
  if (of.home == kNowhere) place(value);
  if (of.stored) return;  // as concatenations are by those who compute their parts
  of.stored = true;
  Draft& home = *drafts_[static_cast<size_t>(of.home)];
  if (home.group.kind == GroupKind::library) return;
  const Shape& shape = type(value).shape;
  const Shape& domain = home.domain();
  FusedOperand to{.storage = value, .dtype = type(value).dtype, .strides = {}};
  if (home.group.kind == GroupKind::column) {
    to.strides = column_strides(domain);
  } else {
    Shape covered = domain;
    if (element_count(shape) != element_count(domain)) covered.back() = 1;  // one per row
    to.strides = see_through(contiguous(covered), {})->strides;
  }
  home.group.kernel.results.push_back({of.step, std::move(to)});
}

// A pointwise value waits for its first reader, unless it is already a long expression.
void Fuser::wait_or_place(Value value) {
  const Node& node = graph_.node(value);
  int weight = is_copy(node) ? 1 : fused_op(node.op).weight;
  for (Value input : node.inputs) {
    const Value source = behind_views(input);
    if (facts(source).home == kNowhere) weight += facts(source).waiting_weight;
  }
  facts(value).waiting_weight = weight;
  if (weight > kWaitingWeight) place(value);
}

void Fuser::call_library(uint32_t number) {
  const Node& node = graph_.nodes()[number];
  for (Value input : node.inputs) store(storage(input));
  std::vector<Value> overwritten;
  if (is_update(node.op)) {
    // What waits to read a tensor that is about to change has to read it now.
    for (uint32_t output = 0; output < node.outputs.size(); ++output)
      if (const auto updated = updated_input(node, output))
        overwritten.push_back(storage(node.inputs[*updated]));
    std::vector<bool> changes(graph_.value_count());
    for (Value value : overwritten) changes[graph_.index(value)] = true;
    for (uint32_t earlier = 0; earlier < number; ++earlier) {
      const Node& reader = graph_.nodes()[earlier];
      const Value value{earlier, 0};
      if (reader.op == Op::input || !owns(value) || facts(value).home != kNowhere) continue;
      if (facts(value).waiting_weight == 0) continue;
      for (Value input : reader.inputs)
        if (changes[graph_.index(storage(input))]) {
          place(value);
          break;
        }
    }
  }
  const auto group = static_cast<int32_t>(drafts_.size());
  drafts_.push_back(std::make_unique<Draft>(GroupKind::library, stage_, Shape{1}));
  drafts_.back()->group.node = number;
  for (uint32_t output = 0; output < node.outputs.size(); ++output) {
    Facts& of = facts({number, output});
    of.home = group;
    of.stored = true;
  }
  for (Value value : overwritten) facts(value).updates.push_back(group);
}

void Fuser::visit(uint32_t number) {
  const Node& node = graph_.nodes()[number];
  const Value value{number, 0};
  if (node.op == Op::input) {
    facts(value).home = kGiven;
    facts(value).stored = true;
    return;
  }
  if (node.op == Op::constant || node.op == Op::iota) return;
  if (is_view(node.op) && !owns(value)) return;
  if (is_pointwise(value)) return wait_or_place(value);
  if (info(node.op).kind == OpClass::reduction) {
    const Reduction reduction = classify_reduction(node, type(node.inputs[0]).shape);
    if (reduction.form != ReductionForm::library && place_if_possible(value)) return;
    const bool is_refused = reduction.form == ReductionForm::library;
    result_.refusals.push_back(
        {value, RefusalNote::kNoGroup, is_refused ? reduction.why : FusionRefusal::read_otherwise});
  }
  if (node.op != Op::concat) return call_library(number);
  if (!is_nested_[number]) return put_together(number);
  facts(value).waiting_weight = 1;
}

FusedGraph Fuser::run() {
  const std::vector<bool> live = live_nodes(graph_);
  const std::vector<Stage> stages = graph_.stages();
  for (stage_ = 0; stage_ < stages.size(); ++stage_) {
    const Stage& stage = stages[stage_];
    for (uint32_t number = stage.begin; number < stage.end; ++number)
      if (live[number]) visit(number);
    // Outputs can be asked for as soon as their stage has run.
    for (const Output& output : graph_.outputs())
      if (output.value.node >= stage.begin && output.value.node < stage.end)
        store(storage(output.value));
  }
  return finish();
}

FusedGraph Fuser::finish() {
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < drafts_.size(); ++i) {
    Group& group = result_.groups.emplace_back(std::move(drafts_[i]->group));
    if (group.kind == GroupKind::library) {
      const Node& node = graph_.nodes()[group.node];
      for (Value input : node.inputs)
        if (graph_.node(storage(input)).op != Op::constant) add_once(group.reads, storage(input));
      for (uint32_t output = 0; output < node.outputs.size(); ++output)
        add_once(group.writes, storage({group.node, output}));
    } else {
      if (group.kernel.results.empty()) continue;  // others computed all of it again
      complete(group);
    }
    kept.push_back(i);
  }
  result_.keep(kept);
  return std::move(result_);
}

void FusedGraph::keep(const std::vector<uint32_t>& order, const std::vector<uint32_t>& gone_into) {
  std::vector<Group> kept;
  std::vector<uint32_t> became(groups.size(), RefusalNote::kNoGroup);
  for (uint32_t number : order) {
    became[number] = static_cast<uint32_t>(kept.size());
    kept.push_back(std::move(groups[number]));
  }
  groups = std::move(kept);
  for (RefusalNote& note : refusals) {
    if (note.group == RefusalNote::kNoGroup) continue;
    while (!gone_into.empty() && gone_into[note.group] != RefusalNote::kNoGroup)
      note.group = gone_into[note.group];
    note.group = became[note.group];
  }
}

std::string_view text_of(FusionRefusal refusal) {
  static constexpr EnumNames<FusionRefusal, FusionRefusal::too_narrow> kTexts(
      "a library call is no generated kernel", "it works on another shape",
      "it belongs to another stage", "something that it reads is computed after that kernel",
      "it reads elements in an order that strides cannot express there",
      "something that it reads is overwritten before that kernel",
      "the kernel would have too many operands or steps",
      "the reduced axes are neither the last nor the first ones",
      "there are too few rows to share out", "too few results lie side by side");
  return kTexts[refusal];
}

FusedGraph fuse(const Graph& graph) {
  return Fuser(graph).run();
}

}  // namespace ridgeline
