// Where the memory of attention goes, tensor by tensor, and how it grows, from the graph alone.
#pragma once

#include <string>
#include <vector>

#include "cost/memory.h"
#include "measure/record.h"
#include "models/attention.h"
#include "report/terminal/table.h"

namespace ridgeline {

// A group of tensors under a common name.
struct MemoryItem {
  std::string name;
  Bytes bytes;
};

struct AttentionMemory {
  std::vector<MemoryItem> forward;   // inputs, scores, weights, output: all that forward computes
  std::vector<MemoryItem> backward;  // their gradients
  std::vector<MemoryItem> saved;     // what backward needs from forward
  std::vector<MemoryItem> at_peak;   // live at the peak
  std::string peak_moment;           // the node that runs at the peak
  Bytes before_backward;
  Bytes peak;
};

// `scratch` returns the memory that a kernel needs while it runs (Device::scratch); empty: none.
AttentionMemory account_attention(const AttentionConfig& config, AttentionForm form,
                                  const ScratchOf& scratch = {});

// Whether a tensor of attention's graph for training has S x S elements because it has one for each
// pair of a query and a key.
bool is_quadratic(const AttentionConfig& config, const Graph& graph, const Lifetime& lifetime);

// The effect of recomputing the weights in backward instead of keeping them.
struct RecomputeEffect {
  Bytes before_backward;
  Bytes peak;
};
RecomputeEffect recompute_weights(const AttentionConfig& config, const ScratchOf& scratch = {});

// "75.0 %".
std::string share(Bytes part, Bytes whole);
std::string signed_percent(Bytes from, Bytes to);  // "+1.25 %"
// Whether the elements of the scores, `heads` of [seq_len, seq_len], are too many to count exactly.
bool is_too_large(int64_t heads, int64_t seq_len);
// "Predicted peak 1.00 GiB, measured by the ledger 1.00 GiB (+0.00 %), ..."; `measured` has a peak.
std::string beside_measured(Bytes predicted_peak, const MemoryFacts& measured);

// The whole account as text: breakdown, peak, scaling over sequence lengths with its fitted
// exponent, and what flash attention and recomputation change. `measured` has no peak if nothing
// was run.
std::string memory_analysis(const AttentionConfig& config, const MemoryFacts& measured,
                            const ScratchOf& scratch = {});

}  // namespace ridgeline
