// The names of all values of an enum, in its order; a missing name does not compile.
//
//   constexpr EnumNames<Bound, Bound::overhead> kBounds("compute", "memory", "overhead");
//   kBounds[Bound::memory];    // "memory"
//   kBounds.find("overhead");  // Bound::overhead
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace ridgeline {

template <class Enum, Enum kLast>
class EnumNames {
 public:
  template <class... Names>
  consteval EnumNames(Names... names) : names_{names...} {
    static_assert(sizeof...(names) == static_cast<size_t>(kLast) + 1);
  }
  constexpr std::string_view operator[](Enum value) const {
    return names_.at(static_cast<size_t>(value));
  }
  constexpr std::optional<Enum> find(std::string_view name) const {
    for (size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == name) return static_cast<Enum>(i);
    return std::nullopt;
  }

 private:
  std::array<std::string_view, static_cast<size_t>(kLast) + 1> names_;
};

}  // namespace ridgeline
