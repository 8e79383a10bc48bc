// Score functions of the C interface: their nodes, checked, and the engine's form of them.
#pragma once

#include <ridgeline/ridgeline.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/score_function.h"

namespace ridgeline {

// What a tensor may hold that is an operand.
enum class OperandKind : uint8_t { unused, number, integer, condition };

// f(scale score) as the engine takes it. Throws a usage error that names the node.
struct ScoreGraph {
  std::shared_ptr<const ScoreFunction> function;
  std::vector<OperandKind> operands;  // by number; those in between may be unused
};
ScoreGraph read_score_graph(std::span<const rl_score_node> nodes, double scale);

}  // namespace ridgeline

struct rl_score_function {
  std::vector<rl_score_node> nodes;
  std::vector<ridgeline::OperandKind> operands;
  uint64_t id = 0;  // no other function of this process has it, not even a later one
};
