#include "runtime/epilogue_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "kernels/host_values.h"
#include "runtime/group_call.h"

namespace ridgeline {
namespace {

constexpr int kTogether = 10;  // runs of a form per timing
constexpr int kMeasuredRounds = 5;
constexpr double kWorthwhile = 0.98;  // fuses only below this fraction of the split time

// The groups of one form: the product and the kernels after it.
std::vector<const Group*> form_of(const EpilogueOffer& offer, bool fused) {
  std::vector<const Group*> groups = {fused ? &offer.fused : &offer.product};
  for (const Group& kernel : fused ? offer.rests : offer.kernels)
    if (!kernel.kernel.results.empty()) groups.push_back(&kernel);
  return groups;
}

// Storages of both forms, filled with normally distributed numbers, as the time of products depends
// on the values.
class Memory {
 public:
  Memory(const Graph& graph, const std::vector<Layout>& layouts, const EpilogueOffer& offer,
         Device& device)
      : graph_(graph), layouts_(layouts) {
    for (bool fused : {false, true})
      for (const Group* group : form_of(offer, fused))
        for (const auto* storages : {&group->reads, &group->writes})
          for (Value storage : *storages) add(storage, device);
  }

  TensorView view(Value value) const {
    const Layout& layout = layouts_[graph_.index(value)];
    const TensorType& type = graph_.type(value);
    char* base = static_cast<char*>(memory_.at(graph_.index(layout.storage)).data());
    return {base + layout.offset * info(type.dtype).size, type.dtype, type.shape, layout.strides};
  }

 private:
  void add(Value storage, Device& device) {
    const uint32_t index = graph_.index(storage);
    if (memory_.contains(index)) return;
    const TensorType& type = graph_.type(storage);
    memory_[index] = device.ledger().allocate(byte_size(type), "timing of " + graph_.name(storage));
    constexpr int64_t kBlock = int64_t{1} << 18;
    const int64_t count = element_count(type.shape);
    const auto size = static_cast<size_t>(info(type.dtype).size);
    std::vector<char> block(static_cast<size_t>(std::min(kBlock, count)) * size);
    NormalRandom random(index, "timing");
    for (size_t at = 0; at < block.size(); at += size) {
      const uint64_t bits = scalar_bits(type.dtype, is_floating(type.dtype) ? random.next() : 0);
      std::copy_n(reinterpret_cast<const char*>(&bits), size, &block[at]);
    }
    for (int64_t begin = 0; begin < count; begin += kBlock) {
      const Shape part = {std::min(kBlock, count - begin)};
      char* to = static_cast<char*>(memory_[index].data()) + begin * static_cast<int64_t>(size);
      device.upload({to, type.dtype, part, {1}}, block.data());
    }
  }

  const Graph& graph_;
  const std::vector<Layout>& layouts_;
  std::map<uint32_t, Allocation> memory_;
};

double time_of(std::vector<GroupCall>& calls, Device& device) {
  const auto once = [&] {
    for (GroupCall& call : calls) call.run(device, nullptr);
  };
  const auto together = [&] {
    for (int repeat = 0; repeat < kTogether; ++repeat) once();
  };
  once();  // loads libraries and chooses algorithms, which cannot be recorded
  const auto recorded = device.record(together);
  if (recorded) recorded();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kMeasuredRounds; ++i)
    best = std::min(best, device.time_ms([&] { recorded ? recorded() : together(); }));
  return best / kTogether;
}

double time_form(bool fused, const Graph& graph, const std::vector<Layout>& layouts,
                 const EpilogueOffer& offer, Device& device) {
  const Memory memory(graph, layouts, offer, device);
  const std::vector<const Group*> groups = form_of(offer, fused);
  std::vector<const FusedKernel*> kernels;
  for (const Group* group : groups)
    if (group->kind != GroupKind::library) kernels.push_back(&group->kernel);
  std::vector<FusedProgram> programs = device.compile(kernels);
  std::vector<GroupCall> calls;
  size_t next = 0;
  for (const Group* group : groups)
    calls.emplace_back(graph, *group,
                       group->kind == GroupKind::library ? nullptr : std::move(programs[next++]),
                       [&](Value value) { return memory.view(value); });
  return time_of(calls, device);
}

std::string dims_text(const Dims& dims) {
  return fmt::format("{}", fmt::join(dims.span(), ","));
}

std::string kernel_text(const FusedKernel& kernel) {
  std::string text = fmt::format("over {}", dims_text(kernel.domain));
  const auto add = [&](const FusedOperand& operand) {
    text += fmt::format(" {}{}+{}({})", operand.is_position ? "position " : "",
                        info(operand.dtype).name, operand.offset, dims_text(operand.strides));
  };
  for (const FusedOperand& input : kernel.inputs) add(input);
  for (const FusedStep& step : kernel.steps)
    text += fmt::format("; {} {} {} {} {}", static_cast<int>(step.kind), info(step.op).name,
                        info(step.dtype).name, fmt::join(step.inputs, ","), step.operand);
  for (const FusedResult& result : kernel.results) {
    text += fmt::format("; {} to", result.step);
    add(result.to);
  }
  return text;
}

}  // namespace

std::string epilogue_key(const Graph& graph, const std::vector<Layout>& layouts,
                         const EpilogueOffer& offer) {
  std::string text = "epilogue:";
  for (Value input : graph.nodes()[offer.product.node].inputs) {
    const Layout& layout = layouts[graph.index(input)];
    text += fmt::format(" {}+{}({})", to_string(graph.type(input)), layout.offset,
                        dims_text(layout.strides));
  }
  const auto type_of = [&](const Group& product) {
    return to_string(graph.type(product.writes[0]));
  };
  text += fmt::format(" to {} or {}", type_of(offer.product), type_of(offer.fused));
  if (const auto& epilogue = offer.fused.epilogue) {
    text += fmt::format(" [{}]", to_string(*epilogue));
    for (const auto& operand : {epilogue->addend, epilogue->bias})
      if (operand) text += fmt::format(" +{}", operand->offset);
  }
  for (bool fused : {false, true}) {
    const std::vector<const Group*> groups = form_of(offer, fused);
    for (const Group* group : groups)
      if (group->kind != GroupKind::library)
        text += fmt::format("\n{} {}", fused ? "rest" : "kernel", kernel_text(group->kernel));
  }
  return text;
}

namespace {

ChooseEpilogue chooser(Device& device) {
  return [&device](const Graph& graph, const std::vector<Layout>& layouts,
                   const EpilogueOffer& offer) {
    const auto time = [&](size_t form) {
      try {
        return time_form(form == 1, graph, layouts, offer, device);
      } catch (const Error& error) {
        // No algorithm, compiler or memory for this form: the other one is used.
        if (error.kind() == ErrorKind::internal) throw;
        return std::numeric_limits<double>::infinity();
      }
    };
    const auto times = device.compare(epilogue_key(graph, layouts, offer), 2, time);
    // Without times the form stays split: fewer bytes do not mean less time, as additions in the
    // library's epilogue were measured to cost more than they save.
    if (!times) return EpilogueDecision{};
    const double split = (*times)[0], fused = (*times)[1];
    return EpilogueDecision{
        .takes = fused < kWorthwhile * split, .split_ms = split, .fused_ms = fused};
  };
}

}  // namespace

ChooseEpilogue epilogue_chooser(Device& device) {
  if (!device.has_epilogues()) return {};
  return chooser(device);
}

ChooseEpilogue product_kernel_chooser(Device& device) {
  if (!device.has_product_kernels()) return {};
  return chooser(device);
}

}  // namespace ridgeline
