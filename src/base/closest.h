// Which known name a mistyped one may have meant, and the error that says so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ridgeline {

// The known name that differs by a letter or two, or else the shortest that contains `word` or is
// contained in it; empty: none is near. Upper and lower case are the same.
std::string closest(std::string_view word, const std::vector<std::string>& known);

// "did you mean 'flash'? ", to be followed by more; empty: no name is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

struct KnownNames {
  std::string_view what;                 // "an attention implementation"
  std::vector<std::string> names;        // that are listed
  std::vector<std::string> others = {};  // that are suggested, too
  std::string_view more = {};            // said after the list: where there are others
};

// A usage error: "'flush' is not an attention implementation", with the names as the next step.
Error unknown_name(std::string_view name, const KnownNames& known);

// The same of a table whose rows have a `name`.
template <class Table>
Error unknown_name(std::string_view name, std::string_view what, const Table& table) {
  KnownNames known{.what = what, .names = {}};
  for (const auto& row : table) known.names.emplace_back(row.name);
  return unknown_name(name, known);
}

// The row of this name; throws that error where there is none.
template <class Table>
const auto& find_named(const Table& table, std::string_view name, std::string_view what) {
  for (const auto& row : table)
    if (row.name == name) return row;
  throw unknown_name(name, what, table);
}

}  // namespace ridgeline
