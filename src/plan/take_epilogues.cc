#include "plan/take_epilogues.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/enum_names.h"
#include "plan/draft.h"
#include "plan/epilogue_forms.h"
#include "plan/group_cost.h"
#include "plan/product_kernel.h"

namespace ridgeline {
namespace {

using Forms = std::vector<std::optional<Epilogue>>;

class Taker {
 public:
  Taker(const Graph& graph, FusedGraph& fused, const ChooseEpilogue& choose,
        const ChooseEpilogue& choose_product)
      : graph_(graph),
        fused_(fused),
        groups_(fused.groups),
        choose_(choose),
        choose_product_(choose_product),
        place_(groups_.size()),
        gone_into_(groups_.size(), RefusalNote::kNoGroup),
        readers_(graph.value_count()),
        writers_(graph.value_count()),
        is_output_(graph.value_count()) {
    std::iota(place_.begin(), place_.end(), 0u);
    for (uint32_t number = 0; number < groups_.size(); ++number) note_touches(number);
    for (const Output& output : graph.outputs())
      is_output_[graph.index(fused.layouts[graph.index(output.value)].storage)] = true;
  }

  // Late products first: of two that are added, the later one can take the earlier one's result.
  std::vector<EpilogueNote> run() {
    std::vector<EpilogueNote> notes;
    for (auto number = static_cast<uint32_t>(groups_.size()); number-- > 0;) {
      const Group& group = groups_[number];
      if (group.kind == GroupKind::library && graph_.nodes()[group.node].op == Op::matmul)
        notes.push_back(visit(number));
    }
    std::reverse(notes.begin(), notes.end());
    put_in_order();
    return notes;
  }

 private:
  void note_touches(uint32_t number) {
    for (Value storage : groups_[number].reads) readers_[graph_.index(storage)].push_back(number);
    for (Value storage : groups_[number].writes) writers_[graph_.index(storage)].push_back(number);
  }
  // Of what a product writes.
  const std::vector<uint32_t>& readers_of(uint32_t number) const {
    return readers_[graph_.index(groups_[number].writes[0])];
  }
  void forget_touches(uint32_t number) {
    for (Value storage : groups_[number].reads) std::erase(readers_[graph_.index(storage)], number);
    for (Value storage : groups_[number].writes)
      std::erase(writers_[graph_.index(storage)], number);
  }

  EpilogueNote visit(uint32_t number);
  // The product inside of the kernel that reads it first, where the device has such kernels.
  std::optional<EpilogueNote> visit_kernel(uint32_t number);
  EpilogueRefusal find(uint32_t number, EpilogueOffer& offer) const;
  std::optional<uint32_t> load_in_order(const Group& product, const Group& reader) const;
  EpilogueRefusal build(uint32_t number, Value into, const Epilogue& epilogue,
                        EpilogueOffer& offer) const;
  EpilogueRefusal leave(Value product, Value into, Group& rest) const;
  bool is_written_between(Value storage, uint32_t first, uint32_t last) const;
  std::optional<uint32_t> place_for(uint32_t number, const Epilogue& form) const;
  void take(uint32_t number, const EpilogueOffer& offer);
  void put_in_order();

  const Graph& graph_;
  FusedGraph& fused_;
  std::vector<Group>& groups_;
  const ChooseEpilogue& choose_;
  const ChooseEpilogue& choose_product_;
  std::vector<uint32_t> place_;  // of a group: its own number, or that of the one it runs before
  std::vector<uint32_t> gone_into_;                       // the product that does all of a kernel
  std::vector<std::vector<uint32_t>> readers_, writers_;  // of storages
  std::vector<bool> is_output_;
};

std::optional<EpilogueNote> Taker::visit_kernel(uint32_t number) {
  const Group& product = groups_[number];
  const Value result = product.writes[0];
  const std::vector<uint32_t>& readers = readers_of(number);
  if (!choose_product_ || readers.empty()) return std::nullopt;
  const uint32_t first = *std::min_element(readers.begin(), readers.end());
  const Group& reader = groups_[first];
  // It runs where the reader does, and reads there what the product read.
  const bool comes_too_late = std::ranges::any_of(product.reads, [&](Value storage) {
    return is_written_between(storage, place_[number], place_[first]);
  });
  if (reader.stage != product.stage || place_[first] != first || comes_too_late)
    return std::nullopt;
  const bool is_needed = readers.size() > 1 || is_output_[graph_.index(result)];
  auto fused = with_product(graph_, fused_.layouts, product, reader, is_needed);
  if (!fused) return std::nullopt;
  const auto bytes = [&](Value value) {
    return static_cast<double>(byte_size(graph_.type(value)).count);
  };
  double operand_bytes = 0;
  for (Value operand : graph_.nodes()[product.node].inputs) operand_bytes += bytes(operand);
  EpilogueNote note{.product = result, .was_asked = true};
  note.offer = {.product = product,
                .kernels = {reader},
                .fused = std::move(*fused),
                .rests = {},
                .split_bytes = bytes(result) + group_cost(graph_, reader, {}).bytes,
                .fused_bytes = 0};
  note.offer->fused_bytes = group_cost(graph_, note.offer->fused, {}).bytes - operand_bytes;
  note.decision = choose_product_(graph_, fused_.layouts, *note.offer);
  if (!note.decision.takes) return note;
  forget_touches(number);
  forget_touches(first);
  groups_[first] = note.offer->fused;
  gone_into_[number] = first;
  note_touches(first);
  return note;
}

EpilogueNote Taker::visit(uint32_t number) {
  const auto with_kernel = visit_kernel(number);
  if (with_kernel && with_kernel->decision.takes) return *with_kernel;
  EpilogueNote note{.product = groups_[number].writes[0]};
  EpilogueOffer offer;
  note.refusal = find(number, offer);
  if (note.refusal != EpilogueRefusal::none) return with_kernel.value_or(note);
  if (choose_) {
    note.decision = choose_(graph_, fused_.layouts, offer);
    note.was_asked = true;
  }
  if (note.decision.takes) take(number, offer);
  note.offer = std::move(offer);
  return note;
}

// The furthest that an epilogue can reach into the kernels that read the product.
EpilogueRefusal Taker::find(uint32_t number, EpilogueOffer& offer) const {
  const Group& product = groups_[number];
  const Value result = product.writes[0];
  const std::vector<uint32_t>& readers = readers_of(number);
  if (is_output_[graph_.index(result)] || readers.empty()) return EpilogueRefusal::read_elsewhere;
  for (uint32_t reader : readers)
    if (groups_[reader].kind == GroupKind::library) return EpilogueRefusal::read_elsewhere;
  const uint32_t first = *std::min_element(readers.begin(), readers.end());
  if (groups_[first].stage != product.stage) return EpilogueRefusal::different_stage;

  // What all readers compute as epilogues of the product, by the first one's steps.
  const FusedKernel& kernel = groups_[first].kernel;
  const auto forms_in = [&](uint32_t reader) -> std::optional<Forms> {
    const auto load = load_in_order(product, groups_[reader]);
    if (!load) return std::nullopt;
    return epilogue_forms(groups_[reader].kernel, *load, graph_.type(result).shape.back());
  };
  auto forms = forms_in(first);
  for (uint32_t reader : readers) {
    const auto others = forms_in(reader);
    if (!forms || !others) return EpilogueRefusal::read_otherwise;
    const std::vector<FusedStep>& steps = groups_[reader].kernel.steps;
    for (uint32_t step = 0; step < forms->size(); ++step) {
      const auto same = [&](const FusedStep& of) { return of.value == kernel.steps[step].value; };
      const auto at = std::find_if(steps.begin(), steps.end(), same);
      if (at == steps.end() || !(*others)[static_cast<size_t>(at - steps.begin())])
        (*forms)[step].reset();
    }
  }
  EpilogueRefusal refusal = EpilogueRefusal::nothing_to_take;
  for (auto step = static_cast<uint32_t>(forms->size()); step-- > 0;) {
    const std::optional<Epilogue>& form = (*forms)[step];
    if (!form || form->does_nothing()) continue;
    refusal = build(number, kernel.steps[step].value, *form, offer);
    if (refusal == EpilogueRefusal::none && !place_for(number, *form))
      refusal = EpilogueRefusal::too_late;
    if (refusal == EpilogueRefusal::none) return refusal;
  }
  return refusal;
}

// The step of a row kernel that loads the product, if it goes through all of it in order.
std::optional<uint32_t> Taker::load_in_order(const Group& product, const Group& reader) const {
  const Value result = product.writes[0];
  const TensorType& type = graph_.type(result);
  const Node& node = graph_.nodes()[product.node];
  // Products of constants and of nothing go their own ways.
  const bool is_special = std::any_of(node.inputs.begin(), node.inputs.end(), [&](Value x) {
    return graph_.node(fused_.layouts[graph_.index(x)].storage).op == Op::constant ||
           element_count(graph_.type(x).shape) == 0;
  });
  const Layout& layout = fused_.layouts[graph_.index(result)];
  if (reader.kind != GroupKind::row || is_special ||
      layout.strides != contiguous_strides(type.shape))
    return std::nullopt;
  std::optional<uint32_t> load;
  const FusedKernel& kernel = reader.kernel;
  for (uint32_t i = 0; i < kernel.steps.size(); ++i) {
    if (kernel.steps[i].kind != FusedStep::Kind::load) continue;
    const FusedOperand& operand = kernel.inputs[kernel.steps[i].operand];
    if (operand.is_position || operand.storage != result) continue;
    if (load || operand.offset != 0 ||
        !lies_in_order(kernel.domain, operand, element_count(type.shape)))
      return std::nullopt;
    load = i;
  }
  return load;
}

// Both forms, if the epilogue gives `into`.
EpilogueRefusal Taker::build(uint32_t number, Value into, const Epilogue& epilogue,
                             EpilogueOffer& offer) const {
  const Group& product = groups_[number];
  const DType operands = graph_.type(graph_.nodes()[product.node].inputs[0]).dtype;
  const TensorType& type = graph_.type(into);
  const auto is_of_result = [&](const std::optional<EpilogueOperand>& operand) {
    return !operand || graph_.type(operand->storage).dtype == type.dtype;
  };
  if ((type.dtype != operands && type.dtype != DType::f32) || !is_of_result(epilogue.addend) ||
      !is_of_result(epilogue.bias))
    return EpilogueRefusal::different_dtype;
  const TensorType& plain = graph_.type({product.node, 0});
  if (!owns_memory(graph_, fused_.layouts, into) ||
      element_count(type.shape) != element_count(plain.shape))
    return EpilogueRefusal::read_otherwise;

  offer = {.product = product, .kernels = {}, .fused = product, .rests = {}};
  offer.fused.into = into;
  offer.fused.epilogue = epilogue;
  offer.fused.writes = {into};
  for (const auto& operand : {epilogue.addend, epilogue.bias})
    if (operand) add_once(offer.fused.reads, operand->storage);
  const auto bytes = [&](const Group& group) { return group_cost(graph_, group, {}).bytes; };
  offer.split_bytes = static_cast<double>(byte_size(plain).count) + bytes(product);
  offer.fused_bytes = static_cast<double>(byte_size(plain).count) + bytes(offer.fused);
  for (uint32_t reader : readers_of(number)) {
    Group rest = groups_[reader];
    const EpilogueRefusal refusal = leave(product.writes[0], into, rest);
    if (refusal != EpilogueRefusal::none) return refusal;
    offer.kernels.push_back(groups_[reader]);
    offer.split_bytes += bytes(groups_[reader]);
    if (!rest.kernel.results.empty()) offer.fused_bytes += bytes(rest);
    offer.rests.push_back(std::move(rest));
  }
  return EpilogueRefusal::none;
}

// Makes a kernel read what it has computed from the product.
EpilogueRefusal Taker::leave(Value product, Value into, Group& rest) const {
  FusedKernel& kernel = rest.kernel;
  const int64_t count = element_count(kernel.domain);
  const auto is_into = [&](const FusedStep& step) {
    return step.value == into && step.kind == FusedStep::Kind::compute;
  };
  const auto step = std::find_if(kernel.steps.begin(), kernel.steps.end(), is_into);
  const auto number = static_cast<uint32_t>(step - kernel.steps.begin());
  bool is_in_order = true;  // what the kernel would have written there
  std::erase_if(kernel.results, [&](const FusedResult& written) {
    if (written.to.storage != into) return false;
    is_in_order = is_in_order && written.step == number && written.to.offset == 0 &&
                  lies_in_order(kernel.domain, written.to, count);
    return true;
  });
  if (!is_in_order) return EpilogueRefusal::read_otherwise;
  const auto loaded = std::find_if(
      kernel.inputs.begin(), kernel.inputs.end(),
      [&](const FusedOperand& input) { return !input.is_position && input.storage == product; });
  FusedOperand operand = *loaded;
  operand.storage = into;
  operand.dtype = step->dtype;
  *step = {.kind = FusedStep::Kind::load,
           .dtype = step->dtype,
           .operand = static_cast<uint32_t>(kernel.inputs.size()),
           .value = into};
  kernel.inputs.push_back(std::move(operand));
  complete(rest);
  const bool is_needed =
      std::find(rest.reads.begin(), rest.reads.end(), product) != rest.reads.end();
  return is_needed ? EpilogueRefusal::product_needed : EpilogueRefusal::none;
}

// Whether somebody between two groups writes to the storage.
bool Taker::is_written_between(Value storage, uint32_t first, uint32_t last) const {
  const std::vector<uint32_t>& writers = writers_[graph_.index(storage)];
  return std::any_of(writers.begin(), writers.end(),
                     [&](uint32_t w) { return place_[w] > first && place_[w] < last; });
}

// Where the product has all that its epilogue reads: where it is, or right before its first reader.
std::optional<uint32_t> Taker::place_for(uint32_t number, const Epilogue& form) const {
  const std::vector<uint32_t>& readers = readers_of(number);
  const uint32_t reader = *std::min_element(readers.begin(), readers.end());
  bool moves = false;
  for (const auto& operand : {form.addend, form.bias}) {
    if (!operand) continue;
    for (uint32_t writer : writers_[graph_.index(operand->storage)]) {
      if (place_[writer] == reader && writer > number) return std::nullopt;  // it would come later
      moves = moves || (place_[writer] > place_[number] && place_[writer] <= reader);
    }
  }
  if (!moves) return place_[number];
  for (Value storage : groups_[number].reads)
    if (is_written_between(storage, place_[number], reader)) return std::nullopt;
  return reader;
}

void Taker::take(uint32_t number, const EpilogueOffer& offer) {
  place_[number] = *place_for(number, *offer.fused.epilogue);
  const std::vector<uint32_t> readers = readers_of(number);
  forget_touches(number);
  groups_[number] = offer.fused;
  for (size_t i = 0; i < readers.size(); ++i) {
    const uint32_t reader = readers[i];
    forget_touches(reader);
    groups_[reader] = offer.rests[i];
    if (groups_[reader].kernel.results.empty()) {
      gone_into_[reader] = number;
    } else {
      note_touches(reader);
    }
  }
  note_touches(number);
}

void Taker::put_in_order() {
  std::vector<uint32_t> order;
  for (uint32_t number = 0; number < groups_.size(); ++number)
    if (gone_into_[number] == RefusalNote::kNoGroup) order.push_back(number);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(place_[a], place_[a] == a) < std::tuple(place_[b], place_[b] == b);
  });
  fused_.keep(order, gone_into_);
}

}  // namespace

std::string_view text_of(EpilogueRefusal refusal) {
  static constexpr EnumNames<EpilogueRefusal, EpilogueRefusal::too_late> kTexts(
      "", "an output or a library call reads the product itself",
      "its first reader belongs to another stage",
      "a reader does not go through the whole product in order",
      "its readers do nothing with it, or not the same, that the library could do",
      "a reader needs the product itself, too",
      "what is added, or the result, has a dtype that the library does not take there",
      "what is added is computed after the product, which cannot wait");
  return kTexts[refusal];
}

std::vector<EpilogueNote> take_epilogues(const Graph& graph, FusedGraph& fused,
                                         const ChooseEpilogue& choose,
                                         const ChooseEpilogue& choose_product) {
  return Taker(graph, fused, choose, choose_product).run();
}

}  // namespace ridgeline
