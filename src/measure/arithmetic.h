// The arithmetic that computed the products of a pass, as recorded, and the ceiling of that path.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

// A part of the products of a pass that are computed alike.
struct ProductPart {
  std::string dtype;
  int products = 1;  // in `dtype`, for each product in the requested dtype
  double share = 1;  // fraction of the multiply-adds
};

struct Arithmetic {
  std::string dtype;               // requested; empty: not recorded
  std::vector<ProductPart> parts;  // one: all products are computed alike
  // False: the record holds the requested dtype, but not how its products were computed, as in
  // older records and those of peers.
  bool recorded = false;

  // "fp32", "fp32 by 3 fp16 products", "fp32, in part by 3 fp16 products".
  std::string name() const;
  // Returns FLOP/s in the requested dtype, given the rate of each dtype; nullopt if one is unknown.
  using RateOf = std::function<std::optional<double>(std::string_view dtype)>;
  std::optional<double> ceiling(const RateOf& rate_of) const;
};

// Returns the arithmetic of one series of a record ("forward", "full_step").
Arithmetic arithmetic_of(const Record& record, std::string_view series);

// Whether the record leaves open which path ran: fp32 and tf32 on a GPU, whose tensor cores may
// compute them from narrower products.
bool is_ambiguous(const Record& record, const Arithmetic& arithmetic);

}  // namespace ridgeline
