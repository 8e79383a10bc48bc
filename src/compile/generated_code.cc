#include "compile/generated_code.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace ridgeline {
namespace {

constexpr size_t kShownNumbers = 16;

}  // namespace

std::string generated_functions(const Plan& plan, const Device& device) {
  std::map<std::string, std::vector<size_t>> kernels;  // by function
  size_t generated = 0;
  for (size_t number = 0; number < plan.kernels.size(); ++number) {
    const Group& group = plan.kernels[number].group;
    if (group.kind == GroupKind::library) continue;
    ++generated;
    for (const std::string& entry : device.functions_of(group.kernel))
      kernels[entry].push_back(number);
  }
  if (kernels.empty()) return {};
  std::string text =
      fmt::format("generated code: {} functions serve {} kernels; --dump-kernels writes them\n",
                  kernels.size(), generated);
  for (auto& [entry, numbers] : kernels) {
    const size_t total = numbers.size();
    if (total > kShownNumbers) numbers.resize(kShownNumbers);
    text += fmt::format(
        "  {}: kernel {}{}\n", entry, fmt::join(numbers, ", "),
        total > kShownNumbers ? fmt::format(" and {} more", total - kShownNumbers) : std::string());
  }
  return text;
}

}  // namespace ridgeline
