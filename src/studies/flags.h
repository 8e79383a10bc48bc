// Flags as data: a study declares each once, and the parser, shell completions, the manual page and
// the commands that reproduce rows follow from the declarations.
//
//   flags.add("--size", &sizes, "of square problems", {.shows_default = true});
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ridgeline {

using Words = std::vector<std::string>;

// A check of each value of a flag.
struct ValueCheck {
  std::function<std::string(const std::string&)> wrong = {};  // the reason; empty: valid
  std::string type = {};                                      // placeholder in --help, "NORM"
};

struct FlagRange {
  int64_t least = 0, most = 0;
};

struct FlagRules {
  bool shows_default = false;  // in --help
  Words choices = {};          // offered by shell completion
  bool only_choices = false;   // other values are rejected
  std::optional<FlagRange> range = {};
  ValueCheck check = {};
  bool splits = true;               // a list is split at commas; else the flag is repeated
  bool repeats = false;             // a list may name a value twice: it is no axis of rows
  int optional_values = 0;          // if above 0, a list takes up to this many, or none
  std::string optional_type = {};   // their placeholder in --help
  Words needs = {}, excludes = {};  // other flags
  bool* given = nullptr;            // set to whether the flag was given
};

struct Flag {
  // The elements of an int64_t list must be at least 1.
  using Target = std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, Words*,
                              std::vector<int64_t>*>;
  std::string names;  // "-o,--output"; without dashes: positional
  Target target;
  std::string help;
  FlagRules rules = {};
  Words initial = {};  // values() when it was declared

  bool has_name(std::string_view name) const;
  std::string long_name() const;  // the first one: "--output"
  Words values() const;           // as command-line words; empty: off, or no value
};

class Flags {
 public:
  Flag& add(std::string names, Flag::Target target, std::string help, FlagRules rules = {});
  Flag& at(std::string_view name);                // throws an internal error if there is none
  const Flag* find(std::string_view name) const;  // null: none
  const std::deque<Flag>& all() const { return flags_; }

  // The flags whose values changed since they were declared, and those marked as given, as
  // command-line words.
  Words changed() const;

 private:
  std::deque<Flag> flags_;  // references stay valid
};

// Flags that have the same meaning in all studies that declare them.
Flag& add_implementations(Flags& flags, Words* names, const std::string& help, Words choices);
Flag& add_dtypes(Flags& flags, Words* dtypes);
Flag& add_gpus(Flags& flags, Words* gpus);                           // names for parse_gpu()
Flag& add_head_dims(Flags& flags, std::vector<int64_t>* head_dims);  // or --d-model
Flag& add_causal(Flags& flags, bool* causal);

// --backward [ALGORITHM...]: measures the gradient, too; without a name by the device's default.
struct BackwardFlags {
  bool asked = false;
  Words algorithms = {};
};
void add_backward(Flags& flags, BackwardFlags* backward);

// The sizes in "4096,4096,1024"; empty if they are not `count` whole numbers of at least 1.
std::vector<int64_t> parse_sizes(std::string_view text, size_t count);

// What each word of a flag stands for: parsed(dtypes, parse_float_dtype).
template <class Parse>
auto parsed(const Words& words, Parse parse) {
  std::vector<std::decay_t<decltype(parse(words.front()))>> values;
  for (const std::string& word : words) values.push_back(parse(word));
  return values;
}

// The names of a table's rows, for FlagRules::choices.
template <class Table>
Words names_of(const Table& table) {
  Words names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

// Lines of --list: name and summary of each row.
std::string listed(std::string_view name, std::string_view summary, int name_width = 12);
template <class Table>
std::string listed(const Table& table, int name_width = 12) {
  std::string text;
  for (const auto& row : table) text += listed(row.name, row.summary, name_width);
  return text;
}
inline constexpr const char* kListedDtypes = "dtypes:\n  fp32, bf16, fp16; tf32 on a GPU\n";

}  // namespace ridgeline
