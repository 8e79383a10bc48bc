#include "studies/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/parse_number.h"
#include "cost/device_specs.h"

namespace ridgeline {
namespace {

template <class Take>
void for_each_name(std::string_view names, const Take& take) {
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    take(names.substr(0, comma));
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
}

struct ValuesOf {
  bool splits;

  Words operator()(const bool* on) const { return *on ? Words{""} : Words{}; }
  Words operator()(const std::string* text) const { return text->empty() ? Words{} : Words{*text}; }
  template <class Number>
  Words operator()(const Number* number) const {
    return {fmt::to_string(*number)};
  }
  template <class Value>
  Words operator()(const std::vector<Value>* list) const {
    if (list->empty()) return {};
    if (splits) return {fmt::format("{}", fmt::join(*list, ","))};
    Words words;
    for (const Value& value : *list) words.push_back(fmt::format("{}", value));
    return words;
  }
};

}  // namespace

bool Flag::has_name(std::string_view name) const {
  bool found = false;
  for_each_name(names, [&](std::string_view own) { found = found || own == name; });
  return found;
}

std::string Flag::long_name() const {
  std::string found;
  for_each_name(names, [&](std::string_view own) {
    if (found.empty() && own.starts_with("--")) found = own;
  });
  return found;
}

Words Flag::values() const {
  return std::visit(ValuesOf{rules.splits}, target);
}

Flag& Flags::add(std::string names, Flag::Target target, std::string help, FlagRules rules) {
  flags_.push_back({std::move(names), target, std::move(help), std::move(rules)});
  flags_.back().initial = flags_.back().values();
  return flags_.back();
}

const Flag* Flags::find(std::string_view name) const {
  const auto found =
      std::ranges::find_if(flags_, [&](const Flag& flag) { return flag.has_name(name); });
  return found == flags_.end() ? nullptr : &*found;
}

Flag& Flags::at(std::string_view name) {
  if (const Flag* found = find(name)) return const_cast<Flag&>(*found);
  throw Error(ErrorKind::internal, fmt::format("no flag {} is declared", name));
}

Words Flags::changed() const {
  Words words;
  for (const Flag& flag : flags_) {
    const Words values = flag.values();
    const bool* given = flag.rules.given;
    if (values == flag.initial && !(given && *given)) continue;
    for (const std::string& value : values) {
      if (flag.names.starts_with('-')) words.push_back(flag.long_name());
      if (!std::holds_alternative<bool*>(flag.target)) words.push_back(value);
    }
  }
  return words;
}

Flag& add_implementations(Flags& flags, Words* names, const std::string& help, Words choices) {
  return flags.add("--impl", names, help, {.choices = std::move(choices)});
}

Flag& add_dtypes(Flags& flags, Words* dtypes) {
  return flags.add("--dtype", dtypes, "fp32, tf32, bf16 or fp16",
                   {.choices = {"fp32", "tf32", "bf16", "fp16"}});
}

Flag& add_gpus(Flags& flags, Words* gpus) {
  Words names;
  for (const GpuSpec& spec : gpu_specs()) names.push_back(typed_name(spec));
  return flags.add("--gpu", gpus, "GPUs by their data sheets: A100, H100-PCIe, 4090, ...",
                   {.choices = std::move(names)});
}

Flag& add_head_dims(Flags& flags, std::vector<int64_t>* head_dims) {
  return flags.add("--d-model,--head-dim", head_dims, "width of one head");
}

Flag& add_causal(Flags& flags, bool* causal) {
  return flags.add("--causal", causal, "a query sees only keys up to its own position");
}

void add_backward(Flags& flags, BackwardFlags* backward) {
  constexpr int kAlgorithms = 2;
  flags.add("--backward,--backward-algorithm", &backward->algorithms,
            "the gradient, too; of flash and compiled by single-pass, two-pass or both "
            "(default: single-pass, with --deterministic on a GPU two-pass)",
            {.choices = {"single-pass", "two-pass"},
             .optional_values = kAlgorithms,
             .optional_type = "ALGORITHM",
             .given = &backward->asked});
}

std::vector<int64_t> parse_sizes(std::string_view text, size_t count) {
  std::vector<int64_t> sizes;
  for (size_t start = 0; start <= text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    const auto size = parse_number<int64_t>(text.substr(start, comma - start));
    if (!size || *size < 1) return {};
    sizes.push_back(*size);
    start = comma + 1;
  }
  return sizes.size() == count ? sizes : std::vector<int64_t>();
}

std::string listed(std::string_view name, std::string_view summary, int name_width) {
  return fmt::format("  {:<{}} {}\n", name, name_width, summary);
}

}  // namespace ridgeline
