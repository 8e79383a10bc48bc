// Where the memory of a whole model goes at its peak: from graph and plan alone.
//
//   const ModelMemory memory = model_memory(executable);
//   memory.at_peak[MemoryKind::activations];
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/memory.h"
#include "models/transformer_lm.h"
#include "plan/plan.h"

namespace ridgeline {

enum class MemoryKind : uint8_t {
  parameters,
  copies,
  gradients,
  optimizer_state,
  activations,
  activation_gradients,
  data,
  workspace,
  gaps,
  cache,
};
inline constexpr size_t kMemoryKinds = 10;

struct MemoryKindInfo {
  MemoryKind kind;
  std::string_view column;   // in records and CSV, before "_bytes"
  std::string_view summary;  // in tables
};
std::span<const MemoryKindInfo> memory_kinds();

// Live bytes at one moment.
struct HeldMemory {
  std::array<Bytes, kMemoryKinds> bytes = {};  // by MemoryKind

  Bytes& operator[](MemoryKind kind) { return bytes[static_cast<size_t>(kind)]; }
  Bytes operator[](MemoryKind kind) const { return bytes[static_cast<size_t>(kind)]; }
  Bytes total() const;
};

struct ModelMemory {
  HeldMemory at_peak;
  std::string peak_moment;                     // "matmul of backward"
  HeldMemory at_begin;                         // before the first kernel
  HeldMemory before_backward, after_backward;  // without backward: after forward

  size_t recomputed = 0;  // results that a plan recomputes to fit the budget

  Bytes peak() const { return at_peak.total(); }
  Bytes saved() const { return before_backward[MemoryKind::activations]; }
};

// The kind of each value that owns memory, by Graph::index.
std::vector<MemoryKind> memory_kinds_of(const Graph& graph);

// Accounts for a graph of model_trace() that is run eagerly, or by a plan.
ModelMemory account_model(const Graph& graph, const Schedule& schedule,
                          const MemoryProfile& profile);
ModelMemory account_model(const Graph& graph, const Plan& plan);

}  // namespace ridgeline
