// Runs the beginning of a plan for one row of tokens as one persistent kernel.
//
// Every block keeps the small values between products in its shared memory and computes them
// redundantly; it computes a share of each product's rows, and broadcasts the results to all other
// blocks. So there is no kernel boundary between two products, and weights are prefetched ahead of
// everything that depends on data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace ridgeline {

// Limits of one step, and the number of compute warps per block.
inline constexpr size_t kMostResidentSides = 4, kMostResidentOperands = 12;
inline constexpr int kResidentWarps = 8;

// An operand of a generated kernel: a value in shared memory, or a side vector of the step.
struct ResidentOperand {
  enum class Kind : uint8_t { shared, side, position };
  Kind kind = Kind::shared;
  uint32_t number = 0;  // in ResidentStep::at, or in its sides
};

// A generated kernel inside a step.
struct ResidentLocal {
  uint32_t kernel = 0;  // of the plan
  uint32_t level = 0;   // it reads results of lower levels of the step
  std::vector<ResidentOperand> inputs = {}, results = {};
};

struct ResidentStep {
  enum class Kind : uint8_t { gather, local, product, attention };
  Kind kind = Kind::local;
  std::vector<int64_t> at = {};  // bytes in shared memory: what is read, then what is written

  std::vector<ResidentLocal> locals = {};
  std::vector<Value> sides = {};           // parameters: contiguous vectors
  std::vector<int64_t> side_offsets = {};  // in bytes, where they are loaded to
  int64_t side_bytes = 0;                  // of all

  // Of a product [1, depth] x [depth, rows]: weights are contiguous rows of an input. `pair`: the
  // generated kernel that combines rows r and r + rows / 2 into one number, which is broadcast
  // instead. Of a gather: a table of `rows` rows, and the index.
  Value weights = {};
  int64_t weights_offset = 0;  // in elements
  int64_t rows = 0, depth = 0;
  std::optional<ResidentLocal> pair = {};
  bool is_last = false;               // no later step reads its result
  std::optional<Value> stored = {};   // where the result is stored, if it is read outside
  std::optional<Value> largest = {};  // where the index of its largest element is stored
  Value index = {};

  uint32_t node = 0;  // of an attention
  Value keys = {}, values = {};
  int64_t slots = 0, window = 0;
};

// Where the index of the largest element is stored: in an i32 input, in slot position mod slots.
struct ResidentStore {
  Value to = {};
  int64_t slots = 1;
};
inline constexpr size_t kMostResidentStores = 2;

struct ResidentPlan {
  uint32_t kernels = 0;     // of the plan, from the first, that it replaces
  int64_t value_bytes = 0;  // of shared memory
  int64_t side_bytes = 0;   // of the step that needs most
  int64_t head_dim = 0, key_heads = 0, group = 0;
  double scale = 1;
  std::vector<ResidentStep> steps;
  std::optional<Value> position = {};  // of the newest token: an i32 input
  std::vector<ResidentStore> stores = {};
  int64_t advance = 0;  // added to the position at the end
  // It covers the whole plan, and the next run continues from what this one stored.
  bool repeats = false;
};

// None where a plan cannot begin with such a kernel; `why` then gives the reason.
std::optional<ResidentPlan> make_resident(const Graph& graph, const Plan& plan, std::string& why);

}  // namespace ridgeline
