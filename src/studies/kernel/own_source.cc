#include "studies/kernel/own_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "base/printable.h"
#include "jit/cuda_jit.h"
#include "jit/nvrtc_compile.h"
#include "kernels/cuda/launch.h"

namespace ridgeline {
namespace {

constexpr std::string_view kMark = "ridgeline:";

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}
bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

using Names = std::map<std::string, int64_t, std::less<>>;

// Recursive descent: sum = product {+- product}, product = factor {*/ factor}.
class Evaluator {
 public:
  Evaluator(std::string_view text, const Names& names) : text_(text), names_(names) {}

  int64_t whole() {
    const int64_t value = sum();
    if (peek() != '\0') throw wrong("an operator");
    return value;
  }

 private:
  static constexpr int kDeepest = 100;  // nested parentheses

  Error wrong(std::string_view expected) const {
    return Error(ErrorKind::usage,
                 fmt::format("'{}' cannot be computed: {} was expected at column {}",
                             printable(text_, 80), expected, at_ + 1));
  }
  char peek() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void require(bool fits) const {
    if (!fits)
      throw Error(ErrorKind::usage, fmt::format("'{}' is beyond 63 bits", printable(text_, 80)));
  }

  int64_t sum() {
    int64_t value = product();
    while (true) {
      if (take('+'))
        require(!__builtin_add_overflow(value, product(), &value));
      else if (take('-'))
        require(!__builtin_sub_overflow(value, product(), &value));
      else
        return value;
    }
  }
  int64_t product() {
    int64_t value = factor();
    while (true) {
      if (take('*')) {
        require(!__builtin_mul_overflow(value, factor(), &value));
      } else if (take('/')) {
        const int64_t divisor = factor();
        if (divisor == 0 || divisor == -1) throw wrong("a divisor that is neither 0 nor -1");
        value /= divisor;
      } else {
        return value;
      }
    }
  }
  int64_t factor() {
    const char c = peek();
    if (take('(')) {
      if (++depth_ > kDeepest) throw wrong("fewer parentheses");
      const int64_t value = sum();
      --depth_;
      if (!take(')')) throw wrong("')'");
      return value;
    }
    if (is_digit(c)) {
      int64_t value = 0;
      const auto [end, problem] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      at_ = static_cast<size_t>(end - text_.data());
      require(problem == std::errc{});
      return value;
    }
    if (is_letter(c)) {
      const size_t begin = at_;
      while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
      const auto found = names_.find(text_.substr(begin, at_ - begin));
      if (found != names_.end()) return found->second;
      std::vector<std::string> known;
      for (const auto& [name, value] : names_) known.push_back(name);
      throw Error(ErrorKind::usage,
                  fmt::format("'{}' is not known here", text_.substr(begin, at_ - begin)),
                  fmt::format("use one of: {}", fmt::join(known, ", ")));
    }
    throw wrong("a number, a name or '('");
  }

  std::string_view text_;
  const Names& names_;
  size_t at_ = 0;
  int depth_ = 0;
};

struct Directive {
  std::string_view name, value;
  int line = 0;
};

// Returns all comments of the form "// ridgeline: name = value".
std::vector<Directive> directives(std::string_view source) {
  std::vector<Directive> found;
  for (int line = 1; !source.empty(); ++line) {
    const size_t end = std::min(source.find('\n'), source.size());
    std::string_view text = trimmed(source.substr(0, end));
    source.remove_prefix(std::min(end + 1, source.size()));
    if (!text.starts_with("//")) continue;
    text = trimmed(text.substr(2));
    if (!text.starts_with(kMark)) continue;
    text.remove_prefix(kMark.size());
    const size_t equals = text.find('=');
    if (equals == text.npos)
      throw Error(ErrorKind::usage, fmt::format("line {}: '{}' has no '='", line, printable(text)),
                  "write // ridgeline: block = 128");
    found.push_back({trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)), line});
  }
  return found;
}

struct Rule {
  std::string_view name;
  size_t most;  // the most numbers it takes
  bool required;
  int64_t smallest;
  std::array<int64_t, 3> largest;
  std::string_view example;
};
// The limits of every GPU from sm_80 on.
constexpr Rule kRules[] = {
    {"grid", 3, true, 1, {2147483647, 65535, 65535}, "(seq_len + 63) / 64, heads, batch"},
    {"block", 3, true, 1, {1024, 1024, 64}, "128"},
    {"shared", 1, false, 0, {1 << 20, 0, 0}, "2 * 64 * head_dim * element_bytes"},
};

std::array<int64_t, 3> numbers(const Directive& directive, const Rule& rule, const Names& names) {
  std::array<int64_t, 3> values = {1, 1, 1};
  std::string_view rest = directive.value;
  for (size_t i = 0;; ++i) {
    if (i == rule.most)
      throw Error(ErrorKind::usage,
                  fmt::format("{} has more than {} numbers", rule.name, rule.most));
    const size_t comma = std::min(rest.find(','), rest.size());
    values[i] = evaluate(rest.substr(0, comma), names);
    if (values[i] < rule.smallest || values[i] > rule.largest[i])
      throw Error(ErrorKind::usage, fmt::format("{}: {} = {} is not within {} to {}", rule.name,
                                                trimmed(rest.substr(0, comma)), values[i],
                                                rule.smallest, rule.largest[i]));
    if (comma == rest.size()) return values;
    rest.remove_prefix(comma + 1);
  }
}

const Rule& find_rule(const Directive& directive) {
  for (const Rule& rule : kRules)
    if (rule.name == directive.name) return rule;
  throw Error(
      ErrorKind::usage,
      fmt::format("'{}' is not something that a kernel can ask for", printable(directive.name, 40)),
      "use grid, block or shared");
}

std::string_view element_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "fp16";
    default:
      return "float";
  }
}

// The entry points that ptxas reported.
std::vector<std::string> entries(const std::string& log) {
  constexpr std::string_view kBefore = "Compiling entry function '";
  std::vector<std::string> found;
  for (size_t at = log.find(kBefore); at != log.npos; at = log.find(kBefore, at)) {
    at += kBefore.size();
    found.push_back(log.substr(at, log.find('\'', at) - at));
  }
  return found;
}

}  // namespace

int64_t evaluate(std::string_view expression, const Names& names) {
  return Evaluator(trimmed(expression), names).whole();
}

OwnLaunch own_launch(std::string_view source, const AttentionConfig& config) {
  const Names names = {{"batch", config.batch_size}, {"heads", config.heads},
                       {"seq_len", config.seq_len},  {"head_dim", config.head_dim},
                       {"causal", config.causal},    {"element_bytes", info(config.dtype).size}};
  std::map<std::string_view, std::array<int64_t, 3>> found;
  for (const Directive& directive : directives(source)) {
    try {
      const Rule& rule = find_rule(directive);
      if (!found.try_emplace(rule.name, numbers(directive, rule, names)).second)
        throw Error(ErrorKind::usage, fmt::format("{} is given a second time", rule.name));
    } catch (const Error& error) {
      throw error.at(fmt::format("line {}", directive.line));
    }
  }
  for (const Rule& rule : kRules)
    if (rule.required && !found.contains(rule.name))
      throw Error(
          ErrorKind::usage, fmt::format("the source does not say its {}", rule.name),
          fmt::format("add a comment such as // ridgeline: {} = {}", rule.name, rule.example));
  OwnLaunch launch{.grid = found["grid"], .block = found["block"]};
  if (found.contains("shared")) launch.shared_bytes = found["shared"][0];
  if (launch.block[0] * launch.block[1] * launch.block[2] > 1024)
    throw Error(ErrorKind::usage, fmt::format("a block of {} threads is more than 1024",
                                              launch.block[0] * launch.block[1] * launch.block[2]));
  return launch;
}

OwnKernelCode compile_own_kernel(const std::string& source, const std::string& file_name,
                                 const std::string& entry, const AttentionConfig& config,
                                 const std::string& arch) {
  const auto flag = [&](DType dtype) { return std::string(config.dtype == dtype ? "1" : "0"); };
  const CudaKernel kernel{
      .file = file_name,
      .entry = entry,
      .constants = {{"HEAD_DIM", fmt::to_string(config.head_dim)},
                    {"CAUSAL", config.causal ? "1" : "0"},
                    {"ELEMENT", std::string(element_type(config.dtype))},
                    {"ELEMENT_IS_BF16", flag(DType::bf16)},
                    {"ELEMENT_IS_FP16", flag(DType::f16)}},
      .text = source};  // the log counts its lines, without those of the constants
  const nvrtc::Compiled compiled = nvrtc::compile(
      {.source = kernel_source(kernel), .name = file_name, .target = arch, .users = true});
  const std::vector<std::string> found = entries(compiled.log);
  if (std::find(found.begin(), found.end(), entry) == found.end())
    throw Error(
        ErrorKind::usage,
        found.empty() ? fmt::format("{} has no kernel", file_name)
                      : fmt::format("{} has no kernel '{}'; it has {}", file_name, entry,
                                    fmt::join(found, ", ")),
        fmt::format("declare it extern \"C\" __global__ void {}(...), or give --entry", entry));
  const KernelResources resources = kernel_resources(compiled.log);
  return {compiled.code, resources.registers, resources.spill_bytes};
}

}  // namespace ridgeline
