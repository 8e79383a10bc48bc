// Products that take over pointwise work of the following kernels, where that is faster.
//
// For a product whose result only row kernels read there may be two forms: the product and the
// kernels as they are, or a product with an epilogue and what is left of the kernels, which may be
// nothing. Legality is decided here; the caller, who can time both forms, chooses which one runs.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "plan/fuse.h"

namespace ridgeline {

// Both forms of one product.
struct EpilogueOffer {
  Group product;               // the split form
  std::vector<Group> kernels;  // of the split form: all readers of the product
  Group fused;                 // the product with its epilogue, or inside a kernel
  std::vector<Group> rests;    // of the fused form: what is left of the kernels
  double split_bytes = 0;      // moved by each form, without the product's operands
  double fused_bytes = 0;
};

struct EpilogueDecision {
  bool takes = false;
  std::optional<double> split_ms = {}, fused_ms = {};  // if they were timed, now or earlier
};

// Called for every offer. Empty: this device's products have no epilogues.
using ChooseEpilogue = std::function<EpilogueDecision(
    const Graph& graph, const std::vector<Layout>& layouts, const EpilogueOffer& offer)>;

enum class EpilogueRefusal : uint8_t {
  none,
  read_elsewhere,
  different_stage,
  read_otherwise,
  nothing_to_take,
  product_needed,
  different_dtype,
  too_late,
};
std::string_view text_of(EpilogueRefusal refusal);

// What was found about one product.
struct EpilogueNote {
  Value product;
  EpilogueRefusal refusal = EpilogueRefusal::none;  // none: there was an offer
  std::optional<EpilogueOffer> offer = {};
  bool was_asked = false;  // whether a device decided on the offer
  EpilogueDecision decision = {};
};

// One note for each product that is a group, in the order in which they run. `choose_product` is
// called first, where a kernel of our own can compute the product and all of its first reader
// (product_kernel.h); empty: this device has no such kernels.
std::vector<EpilogueNote> take_epilogues(const Graph& graph, FusedGraph& fused,
                                         const ChooseEpilogue& choose,
                                         const ChooseEpilogue& choose_product);

}  // namespace ridgeline
