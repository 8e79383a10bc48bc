#include "graph/input_info.h"

#include <array>

namespace ridgeline {

const RoleInfo& info(Role role) {
  static constexpr std::array<RoleInfo, 7> kRoles = {{
      {.name = "data", .prefix = ""},
      {.name = "parameter", .prefix = "", .has_parts = true},
      {.name = "first moment", .prefix = "m.", .has_parts = true},
      {.name = "second moment", .prefix = "v.", .has_parts = true},
      {.name = "copy", .prefix = "16bit.", .has_parts = true},
      {.name = "step scalars", .prefix = ""},
      {.name = "cache", .prefix = ""},
  }};
  return kRoles[static_cast<size_t>(role)];
}

std::string tensor_name(Role role, std::string_view parameter) {
  return std::string(info(role).prefix) + std::string(parameter);
}

std::string input_name(Role role, const std::vector<InputPart>& parts) {
  std::string name;
  for (const InputPart& part : parts) name += (name.empty() ? "" : "+") + part.parameter;
  return tensor_name(role, name);
}

}  // namespace ridgeline
