// What an input of a graph is for, and which parameters it holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

enum class Role : uint8_t {
  data,  // provided by the caller: tokens, targets, tables
  parameter,
  first_moment,  // of parameters, kept by the optimizer
  second_moment,
  copy,          // of parameters in 16 bits, which products read
  step_scalars,  // what changes from step to step: the learning rate, corrections, the position
  cache,         // keys and values of earlier tokens
};

struct RoleInfo {
  std::string_view name;
  std::string_view prefix;  // "m.": the first moment of w is called m.w
  bool has_parts = false;   // whether its inputs hold parameters or their optimizer state
};
const RoleInfo& info(Role role);

// A parameter in an input: this many rows, below those of the preceding parts.
struct InputPart {
  std::string parameter;
  int64_t rows = 0;
};

struct InputInfo {
  std::string name;
  Role role = Role::data;
  std::vector<InputPart> parts = {};  // several: parameters that one product reads together
  // Above 1: a rank's shard of a buffer of concatenated parts, whose rows are then elements
  // (shard_of in collective_kind.h); zeros pad its end.
  int ranks = 1;
};

// "m.w": the name of a parameter's tensor in this role, for inputs and outputs.
std::string tensor_name(Role role, std::string_view parameter);

// The name of an input that holds all the parts: "m.q+k+v".
std::string input_name(Role role, const std::vector<InputPart>& parts);

}  // namespace ridgeline
