// The name of an input that holds several tensors below each other: their names, joined by '+'.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

inline std::vector<std::string> packed_parts(std::string_view name) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = name.find('+');
    parts.emplace_back(name.substr(0, end));
    if (end == std::string_view::npos) return parts;
    name.remove_prefix(end + 1);
  }
}

}  // namespace ridgeline
