// The text of a kernel and its names; what ptxas said of it.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/sha256.h"
#include "jit/cuda_jit.h"
#include "jit/kernel_text.h"
#include "kernels/cuda/embedded.h"

namespace ridgeline {
namespace {

std::string_view embedded_text(const std::string& name) {
  for (const EmbeddedText& row : cuda_texts())
    if (row.name == name) return row.text;
  throw Error(ErrorKind::internal, fmt::format("no CUDA text is called '{}'", name));
}

// The number that ends where `end` begins: "Used 255 registers", asked for " registers".
int number_before(std::string_view text, size_t end) {
  size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1]))) --begin;
  int value = 0;
  for (size_t i = begin; i < end; ++i) value = value * 10 + (text[i] - '0');
  return value;
}

std::vector<int> numbers_before(std::string_view text, std::string_view unit) {
  std::vector<int> numbers;
  for (size_t at = text.find(unit); at != text.npos; at = text.find(unit, at + unit.size()))
    numbers.push_back(number_before(text, at));
  return numbers;
}

int sum(const std::vector<int>& numbers) {
  int total = 0;
  for (int number : numbers) total += number;
  return total;
}

int largest(const std::vector<int>& numbers) {
  return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
}

}  // namespace

std::string kernel_source(const CudaKernel& kernel) {
  std::string source;
  for (const auto& [name, value] : kernel.constants)
    source += fmt::format("#define {} {}\n", name, value);
  source += fmt::format("#line 1 \"{}\"\n", kernel.file);
  source += kernel.text.empty() ? embedded_text(kernel.file) : std::string_view(kernel.text);
  return source;
}

std::string kernel_key(const CudaKernel& kernel) {
  std::string key = fmt::format("{}:{}", kernel.file, kernel.entry);
  for (const auto& [name, value] : kernel.constants) key += fmt::format(" {}={}", name, value);
  return key;
}

std::string kernel_file_name(const CudaKernel& kernel, const std::string& arch) {
  constexpr size_t kLongest = 120;
  std::string name = kernel.entry;
  for (const auto& [constant, value] : kernel.constants)
    name += fmt::format("-{}_{}", constant, value);
  name += '-' + arch;
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  const bool is_exact = name.size() <= kLongest && std::all_of(name.begin(), name.end(), is_plain);
  if (is_exact) return name;
  // Shortened or changed names could meet; a few digits of the hash keep them apart.
  std::replace_if(
      name.begin(), name.end(), [&](char c) { return !is_plain(c); }, '_');
  name.resize(std::min(name.size(), kLongest));
  return fmt::format("{}-{}", name, to_hex(sha256(kernel_key(kernel) + arch)).substr(0, 8));
}

KernelResources kernel_resources(const std::string& log) {
  return {.registers = largest(numbers_before(log, " registers")),
          .spill_bytes = sum(numbers_before(log, " bytes spill stores")) +
                         sum(numbers_before(log, " bytes spill loads")),
          .stack_bytes = sum(numbers_before(log, " bytes stack frame")),
          .shared_bytes = largest(numbers_before(log, " bytes smem"))};
}

}  // namespace ridgeline
