// Products that do pointwise work of the kernels behind them, where that is faster.
//
// For a product whose result only row kernels read there may be two forms: the product and the
// kernels as they are, or a product with an epilogue and what is left of the kernels, which may be
// nothing. Legality is decided here; which form runs is somebody else's choice, who can time them.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "plan/fuse.h"

namespace ridgeline {

// Both forms of a place.
struct EpilogueOffer {
  Group product;               // the split form,
  std::vector<Group> kernels;  // with all that reads the product
  Group fused;                 // the product with its epilogue, or a kernel with it inside,
  std::vector<Group> rests;    // and what is left of the kernels
  double split_bytes = 0;      // that the two forms move, apart from the product's operands
  double fused_bytes = 0;
};

struct EpilogueDecision {
  bool takes = false;
  std::optional<double> split_ms = {}, fused_ms = {};  // where they were timed, now or earlier
};

// Asked for every offer. Empty: this device's products have no epilogues.
using ChooseEpilogue =
    std::function<EpilogueDecision(const Graph& graph, const std::vector<Layout>& layouts,
                                   const EpilogueOffer& offer, const EmitOptions& emit)>;

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
  EpilogueRefusal refusal = EpilogueRefusal::none;  // or none: there was an offer,
  std::optional<EpilogueOffer> offer = {};
  bool was_asked = false;  // which a device decided
  EpilogueDecision decision = {};
};

// One note for each product that is a group, in the order in which they run. `choose_product` is
// asked first, where a kernel of our own could multiply and do all that the first reader does
// (product_kernel.h); empty: this device has no such kernels.
std::vector<EpilogueNote> take_epilogues(const Graph& graph, FusedGraph& fused,
                                         const ChooseEpilogue& choose,
                                         const ChooseEpilogue& choose_product,
                                         const EmitOptions& emit);

}  // namespace ridgeline
