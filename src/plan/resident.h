// The beginning of a plan for one row of tokens as one kernel that stays on the GPU for all of it.
//
// Every block holds the small values between the products in its own shared memory and computes
// them for itself; of each product's rows it computes a share, and hands the results to all others.
// So no kernel ends between two products, and weights stream in ahead of everything that depends on
// data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace ridgeline {

// What one step may name at most, and how many warps of a block compute.
inline constexpr size_t kMostResidentSides = 4, kMostResidentOperands = 12;
inline constexpr int kResidentWarps = 8;

// An operand of a generated kernel: a value in shared memory, or a vector that is read beside it.
struct ResidentOperand {
  enum class Kind : uint8_t { shared, side, position };
  Kind kind = Kind::shared;
  uint32_t number = 0;  // in ResidentStep::at, or in its sides
};

// A generated kernel among those of a step.
struct ResidentLocal {
  uint32_t kernel = 0;  // of the plan
  uint32_t level = 0;   // it reads what kernels of lower levels of the step write
  std::vector<ResidentOperand> inputs = {}, results = {};
};

struct ResidentStep {
  enum class Kind : uint8_t { gather, local, product, attention };
  Kind kind = Kind::local;
  std::vector<int64_t> at = {};  // bytes in shared memory: what is read, then what is written

  std::vector<ResidentLocal> locals = {};
  std::vector<Value> sides = {};           // parameters, contiguous vectors,
  std::vector<int64_t> side_offsets = {};  // which are read to these bytes
  int64_t side_bytes = 0;                  // of all

  // Of a product [1, depth] x [depth, rows]: weights are contiguous rows of an input. With `pair`,
  // the generated kernel that makes one number of rows r and r + rows / 2, which then are what is
  // handed over. Of a gather: a table of `rows` rows, and the index.
  Value weights = {};
  int64_t weights_offset = 0;  // in elements
  int64_t rows = 0, depth = 0;
  std::optional<ResidentLocal> pair = {};
  bool is_last = false;               // nobody inside reads its result,
  std::optional<Value> stored = {};   // which lies in memory, if somebody outside does,
  std::optional<Value> largest = {};  // and where the largest element is
  Value index = {};

  uint32_t node = 0;  // of an attention
  Value keys = {}, values = {};
  int64_t slots = 0, window = 0;
};

// Where the largest element's place is stored: in an i32 input, in slot position mod slots.
struct ResidentStore {
  Value to = {};
  int64_t slots = 1;
};
inline constexpr size_t kMostResidentStores = 2;

struct ResidentPlan {
  uint32_t kernels = 0;     // of the plan that it replaces, from the first
  int64_t value_bytes = 0;  // of shared memory
  int64_t side_bytes = 0;   // of the step that needs most
  int64_t head_dim = 0, key_heads = 0, group = 0;
  double scale = 1;
  std::vector<ResidentStep> steps;
  std::optional<Value> position = {};  // an i32 input: that of the newest token
  std::vector<ResidentStore> stores = {};
  int64_t advance = 0;  // by which the position grows in the end
  // It is all of the plan, and the next run goes on from what this one stored.
  bool repeats = false;
};

// Nothing where a plan does not begin with one; `why` then says what is in the way.
std::optional<ResidentPlan> make_resident(const Graph& graph, const Plan& plan, std::string& why);

}  // namespace ridgeline
