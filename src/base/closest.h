// Suggests a known name for a mistyped one, and makes the error that does so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ridgeline {

// Returns the known name with the smallest edit distance if it is small, else the shortest one that
// contains `word` or is contained in it; empty if there is none. Ignores case.
std::string closest(std::string_view word, const std::vector<std::string>& known);

// "did you mean 'flash'? ", with a trailing space; empty if there is no suggestion.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

struct KnownNames {
  std::string_view what;                 // "an attention implementation"
  std::vector<std::string> names;        // listed and suggested
  std::vector<std::string> others = {};  // suggested only
  std::string_view more = {};            // text after the list, such as where to find others
};

// A usage error: "'flush' is not an attention implementation", with the names as the next step.
Error unknown_name(std::string_view name, const KnownNames& known);

// The same for a table whose rows have a `name`.
template <class Table>
Error unknown_name(std::string_view name, std::string_view what, const Table& table) {
  KnownNames known{.what = what, .names = {}};
  for (const auto& row : table) known.names.emplace_back(row.name);
  return unknown_name(name, known);
}

// Returns the row of this name; throws unknown_name() if there is none.
template <class Table>
const auto& find_named(const Table& table, std::string_view name, std::string_view what) {
  for (const auto& row : table)
    if (row.name == name) return row;
  throw unknown_name(name, what, table);
}

}  // namespace ridgeline
