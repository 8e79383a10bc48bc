// Faults in the text of generated kernels: each rule changes one place the way a mistake would.
#pragma once

#include <regex>
#include <span>
#include <string>
#include <vector>

namespace ridgeline::testing {

struct TextRule {
  const char* what;
  const char* find;  // a regular expression
  const char* replacement;
};

// Some hold for C++, some for CUDA, most for both. None makes a loop endless or writes outside.
inline constexpr TextRule kTextRules[] = {
    {"adds instead of subtracting", R"((= [\w().]+) - (\w))", "$1 + $2"},
    {"subtracts instead of adding", R"((= [\w().]+) \+ (\w))", "$1 - $2"},
    {"adds instead of multiplying", R"((= \w+) \* (\w+;))", "$1 + $2"},
    {"multiplies instead of dividing", R"((= \w+) / (\w+;))", "$1 * $2"},
    {"exchanges the terms of a difference", R"(= (\w+) - (\w+);)", "= $2 - $1;"},
    {"exchanges numerator and denominator", R"(= (\w+) / (\w+);)", "= $2 / $1;"},
    {"squares instead of multiplying", R"(= (\w+) \* (\w+);)", "= $1 * $1;"},
    {"leaves a factor out", R"(= (\w+) \* (\w+);)", "= $1;"},
    {"leaves a term out", R"(= (\w+) \+ (\w+);)", "= $2;"},
    {"forgets a minus", R"(= -(\w+);)", "= $1;"},
    {"overwrites instead of accumulating a part", R"((part_\d+) \+= )", "$1 = "},
    {"overwrites instead of accumulating a total", R"((total_\d+(\[c\])?) \+= )", "$1 = "},
    {"accumulates twice", R"((part_\d+|total_\d+\[c\]) \+= (\w+);)", "$1 += $2; $1 += $2;"},
    {"starts a sum at one", R"((float (?:part|total)_\d+) = 0;)", "$1 = 1;"},
    {"starts a maximum at zero", R"(= -__builtin_inff\(\))", "= 0"},
    {"takes the minimum", R"((\w+) > (part_\d+) \?)", "$1 < $2 ?"},
    {"loses the last row", R"(row < last_row)", "row + 1 < last_row"},
    {"loses the first row", R"(int64 row = first_row)", "int64 row = first_row + 1"},
    {"loses the last column", R"(c < last_column; \+\+c\) \{)", "c + 1 < last_column; ++c) {"},
    {"loses the first column", R"(int64 c = first_column; c < last_column; \+\+c\) \{)",
     "int64 c = first_column + 1; c < last_column; ++c) {"},
    {"loses the end of a run", R"(c < end)", "c + 1 < end"},
    {"loses the begin of a run", R"(int64 c = begin)", "int64 c = begin + 1"},
    {"folds the first run only", R"(begin < kColumns; begin \+= 256)", "begin < 1; begin += 256"},
    {"divides a mean by one more", R"(\(1\.0f / kColumns\))", "(1.0f / (kColumns + 1))"},
    {"reads the first column only", R"(widen\((from\d+)\[c\]\))", "widen($1[0])"},
    {"reads a kept value of another column", R"(= (kept_\w+)\[c\];)", "= $1[0];"},
    {"reads the first row only", R"(inputs\[(\d+)\]\.rows\[(\d+)\];)", "inputs[$1].rows[$2] * 0;"},
    {"does not step along the columns", R"(c \* (inputs\[\d+\]\.column))", "c * ($1 * 0)"},
    {"takes another row of an axis", R"(rest % sizes\[(\d+)\])", "0 * sizes[$1]"},
    {"has another constant", R"(\(float\)constants\[(\d+)\])", "1.5f * constants[$1]"},
    {"writes the wrong sign", R"((put\(&\w+\[[^\]]*\], )(\w+)\))", "$1-$2)"},
    {"does not write", R"(put\(&)", "if (first_row < 0) put(&"},
    {"writes one element only", R"(put\(&(to\d+)\[c)", "put(&$1[0 * c"},
    {"takes a logarithm for an exponential", R"(exponential\()", "logarithm("},
    {"takes an exponential for a logarithm", R"(= logarithm\()", "= exponential("},
    {"takes the root for its inverse", R"(inverse_root\()", "square_root("},
    {"takes the inverse for a root", R"(= square_root\()", "= inverse_root("},
    {"takes another function for a sigmoid", R"(= sigmoid\()", "= exponential("},
    {"exchanges the branches of a choice", R"(= (\w+) \? (\w+) : (\w+);)", "= $1 ? $3 : $2;"},
    {"compares the other way round", R"(= (\w+) < (\w+);)", "= $2 < $1;"},
    {"finds unequal what is equal", R"(= (\w+) == (\w+);)", "= $1 != $2;"},
    // CUDA
    {"loses the last of a shared row", R"(Sum::)", "Max::"},
    {"forgets to accumulate", R"(\+= (?!256))", "= "},  // but for the step of a loop
};

// In the functions that all generated C++ stands on.
inline constexpr TextRule kPreambleRules[] = {
    {"exponential: a wrong coefficient", R"(1\.0f / 120)", "1.0f / 100"},
    {"exponential: the second term doubled", R"(fused\(p, f, 0\.5f\))", "fused(p, f, 1.0f)"},
    {"exponential: cut off too early", R"(x < -110\.0f \? -110\.0f)", "x < -1.0f ? -1.0f"},
    {"exponential: the wrong base", R"(1\.44269504f)", "1.5f"},
    {"logarithm: a wrong coefficient", R"(2\.0f / 3\))", "2.0f / 4)"},
    {"logarithm: ln 2 is off", R"(fused\(n, 0\.693145752f)", "fused(n, 0.6932f"},
    {"logarithm: the wrong power", R"(0x3f3504f3)", "0x3f3504f3 + (1 << 23)"},
    {"inverse root: no root", R"(1\.0f / __builtin_sqrtf\(x\))", "1.0f / x"},
    {"root: no root", R"(return __builtin_sqrtf\(x\))", "return x"},
    {"sigmoid: the other way round", R"(1\.0f \+ exponential\(-x\))", "1.0f + exponential(x)"},
    {"larger: the smaller", R"(a > b \|\|)", "a < b ||"},
    {"bf16: cut off", R"(bits \+ 0x7fffu \+ \(\(bits >> 16\) & 1u\))", "bits"},
    {"bf16: rounded up", R"(bits \+ 0x7fffu \+)", "bits + 0xffffu +"},
    {"bf16: read with the wrong exponent", R"(\(unsigned\)x << 16)", "(unsigned)x << 15"},
    {"fp32: written with the wrong sign", R"(put\(float\* to, float x\) \{ \*to = x)",
     "put(float* to, float x) { *to = -x"},
};

struct TextFault {
  std::string entry, what;
  std::string text;  // of the kernel, with the fault
};

// At most one fault of every rule, at one of the places where it applies.
inline std::vector<TextFault> text_faults(const std::string& entry, const std::string& text,
                                          std::span<const TextRule> rules = kTextRules) {
  const size_t body = text.find(") {");  // behind the head of the function
  const std::string head = text.substr(0, body), rest = text.substr(body);
  std::vector<TextFault> faults;
  for (const TextRule& rule : rules) {
    const std::regex pattern(rule.find);
    std::vector<std::smatch> places(std::sregex_iterator(rest.begin(), rest.end(), pattern),
                                    std::sregex_iterator());
    if (places.empty()) continue;
    const std::smatch& place = places[(entry.size() + faults.size()) % places.size()];
    faults.push_back({entry, rule.what,
                      head + std::string(rest.cbegin(), place[0].first) +
                          place.format(rule.replacement) +
                          std::string(place[0].second, rest.cend())});
  }
  return faults;
}

}  // namespace ridgeline::testing
