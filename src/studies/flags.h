// Flags as data. A study declares them once: the command line, completions, the manual page and the
// commands that people paste are made from what it declared.
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

// What the values of a flag must be.
struct ValueCheck {
  std::function<std::string(const std::string&)> wrong = {};  // what is; empty text: nothing
  std::string type = {};                                      // in --help, such as "NORM"
};

struct FlagRange {
  int64_t least = 0, most = 0;
};

struct FlagRules {
  bool shows_default = false;  // in --help
  Words choices = {};          // what shells complete
  bool only_choices = false;   // anything else is refused
  std::optional<FlagRange> range = {};
  ValueCheck check = {};
  bool splits = true;               // of a list: at commas; else the flag is given again
  int optional_values = 0;          // of a list: up to so many, or none
  std::string optional_type = {};   // of those, in --help
  Words needs = {}, excludes = {};  // other flags
  bool* given = nullptr;            // told whether it was
};

struct Flag {
  // A list of sizes takes none below 1.
  using Target = std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, Words*,
                              std::vector<int64_t>*>;
  std::string names;  // "-o,--output"; without dashes it is told by its place
  Target target;
  std::string help;
  FlagRules rules = {};
  Words initial = {};  // see values()

  bool has_name(std::string_view name) const;
  std::string long_name() const;  // the first: "--output"
  Words values() const;           // as they could be written behind the name; empty: off, or none
};

class Flags {
 public:
  Flag& add(std::string names, Flag::Target target, std::string help, FlagRules rules = {});
  Flag& at(std::string_view name);                // throws an internal error where there is none
  const Flag* find(std::string_view name) const;  // null: none
  const std::deque<Flag>& all() const { return flags_; }

  // Those that are no longer what they were when declared, as words of a command line.
  Words changed() const;

 private:
  std::deque<Flag> flags_;  // references stay good
};

// Flags of a problem, each with one meaning in all studies that have it.
Flag& add_implementations(Flags& flags, Words* names, const std::string& help, Words choices);
Flag& add_dtypes(Flags& flags, Words* dtypes);
Flag& add_gpus(Flags& flags, Words* gpus);                           // names for parse_gpu()
Flag& add_head_dims(Flags& flags, std::vector<int64_t>* head_dims);  // and --d-model
Flag& add_causal(Flags& flags, bool* causal);

// --backward: the gradient is measured, by the algorithms that follow it; none: the device's own.
struct BackwardFlags {
  bool asked = false;
  Words algorithms = {};
};
void add_backward(Flags& flags, BackwardFlags* backward);

// The names of a table's rows, for choices.
template <class Table>
Words names_of(const Table& table) {
  Words names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

// Lines of --list: each row's name and summary.
std::string listed(std::string_view name, std::string_view summary, int name_width = 12);
template <class Table>
std::string listed(const Table& table, int name_width = 12) {
  std::string text;
  for (const auto& row : table) text += listed(row.name, row.summary, name_width);
  return text;
}
inline constexpr const char* kListedDtypes = "dtypes:\n  fp32, bf16, fp16; tf32 on a GPU\n";

}  // namespace ridgeline
