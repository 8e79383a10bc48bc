// A fused group under construction: steps are looked up by what they compute, and are rolled back
// when a node turns out not to fit.
#pragma once

#include <unordered_map>

#include "plan/access.h"
#include "plan/fuse.h"

namespace ridgeline {

// A value as a domain sees it.
struct SeenValue {
  uint32_t value = 0;  // Graph::index
  int64_t offset = 0;
  Strides strides;
  bool operator==(const SeenValue&) const = default;
};
struct SeenValueHash {
  size_t operator()(const SeenValue& seen) const;
};

class Draft {
 public:
  Draft(GroupKind kind, uint32_t stage, Shape domain);

  Group group;

  const Shape& domain() const { return group.kernel.domain; }
  std::optional<uint32_t> find(const SeenValue& seen) const;
  void name_step(const SeenValue& seen, uint32_t step);
  uint32_t add(FusedStep step);
  uint32_t add_input(FusedOperand operand, Value value);
  // Whether the value is read or computed here, through any view.
  bool mentions(uint32_t value) const { return mentioned_.contains(value); }
  // Whether the view covers the domain in order: all of it, or one element per row.
  bool covers_all(const SeenValue& seen) const;
  bool covers_rows(const SeenValue& seen) const;

  struct Mark {
    size_t steps, inputs, named;
  };
  Mark mark() const {
    return {group.kernel.steps.size(), group.kernel.inputs.size(), named_.size()};
  }
  void roll_back(const Mark& mark);
  // All named steps; the fuser records where values are computed.
  const std::vector<std::pair<SeenValue, uint32_t>>& named() const { return named_; }

 private:
  std::unordered_map<SeenValue, uint32_t, SeenValueHash> steps_;
  std::unordered_map<uint32_t, int> mentioned_;
  std::vector<std::pair<SeenValue, uint32_t>> named_;
  Strides all_, rows_;  // the strides of a value that covers the domain
};

// Completes a fused group whose results are known: drops unused steps and inputs, names the kernel
// after its ops, and records what it reads and writes.
void complete(Group& group);

}  // namespace ridgeline
