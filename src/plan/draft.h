// A fused group under construction: steps that are found again by what they compute, and that can
// be taken back when a node turns out not to fit.
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
  // Whether the value is read or computed here, however it is seen.
  bool mentions(uint32_t value) const { return mentioned_.contains(value); }
  // Whether what is seen covers the domain in order: all of it, or one element per row.
  bool covers_all(const SeenValue& seen) const;
  bool covers_rows(const SeenValue& seen) const;

  struct Mark {
    size_t steps, inputs, named;
  };
  Mark mark() const {
    return {group.kernel.steps.size(), group.kernel.inputs.size(), named_.size()};
  }
  void roll_back(const Mark& mark);
  // What was named since: for the fuser, which notes where values live.
  const std::vector<std::pair<SeenValue, uint32_t>>& named() const { return named_; }

 private:
  std::unordered_map<SeenValue, uint32_t, SeenValueHash> steps_;
  std::unordered_map<uint32_t, int> mentioned_;
  std::vector<std::pair<SeenValue, uint32_t>> named_;
  Strides all_, rows_;  // how a value that covers the domain is seen
};

// Completes a fused group whose results are known: drops steps and inputs that none of them needs,
// names the kernel after its ops, and notes what it reads and writes.
void complete(Group& group);

}  // namespace ridgeline
