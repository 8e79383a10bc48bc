// Where the memory of attention goes, tensor by tensor, and how it grows: computed from the graph
// alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost/memory.h"
#include "models/attention.h"
#include "report/terminal/table.h"

namespace ridgeline {

// A group of tensors under the name that people use for it.
struct MemoryItem {
  std::string name;
  Bytes bytes;
};

struct AttentionMemory {
  std::vector<MemoryItem> forward;   // inputs, scores, weights, output: all that forward produces
  std::vector<MemoryItem> backward;  // gradients of the same
  std::vector<MemoryItem> saved;     // what backward needs of forward
  std::vector<MemoryItem> at_peak;   // what lives in the worst moment
  std::string peak_moment;           // the node that runs then
  Bytes before_backward;
  Bytes peak;
};

// `scratch` is what the kernels of a device take while they run (Device::scratch); empty: nothing.
AttentionMemory account_attention(const AttentionConfig& config, AttentionForm form,
                                  const ScratchOf& scratch = {});

// With the weights computed again in backward instead of kept: what is saved, and the peak.
struct RecomputeEffect {
  Bytes before_backward;
  Bytes peak;
};
RecomputeEffect recompute_weights(const AttentionConfig& config, const ScratchOf& scratch = {});

// What a run really took, when one was made.
struct MeasuredMemory {
  Bytes peak;
  std::optional<Bytes> process_growth = {};  // on a CPU
  std::optional<Bytes> driver_growth = {};   // on a GPU
};

// "75.0 %".
std::string share(Bytes part, Bytes whole);
// "Predicted peak 1.00 GiB, measured by the ledger 1.00 GiB (+0.00 %), ...".
std::string beside_measured(Bytes predicted_peak, const MeasuredMemory& measured);

// The whole account as text: breakdown, peak, scaling over sequence lengths with its fitted
// exponent, and what flash attention and recomputation change.
std::string memory_analysis(const AttentionConfig& config,
                            const std::optional<MeasuredMemory>& measured,
                            const ScratchOf& scratch = {});

}  // namespace ridgeline
