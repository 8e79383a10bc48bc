// A table of what users choose by name:
//
//   kKernelModes.find("cold").mode
//   kKernelModes[KernelMode::cold].summary
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/closest.h"

namespace ridgeline {

template <class Row>
struct Choices {
  std::string_view what;  // what a name is: "a mode of measuring"
  std::span<const Row> rows;

  auto begin() const { return rows.begin(); }
  auto end() const { return rows.end(); }

  // For tables with one row per enumerator, in their order (tests/studies/choices_test.cc).
  template <class Enum>
  requires std::is_enum_v<Enum>
  const Row& operator[](Enum choice) const { return rows[static_cast<size_t>(choice)]; }
  // Throws a usage error that lists the names.
  const Row& find(std::string_view name) const { return find_named(rows, name, what); }
  // A member of the row of each name: kKernelModes.find_all({"hot", "cold"}, &KernelModeInfo::mode)
  template <class Member>
  std::vector<Member> find_all(std::span<const std::string> names, Member Row::*member) const {
    std::vector<Member> found;
    for (const std::string& name : names) found.push_back(find(name).*member);
    return found;
  }
};

}  // namespace ridgeline
