// Which arithmetic made the products of a pass, as its record says, and the ceiling of that path.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

// A share of the products of a pass: so many of `dtype` for one of the dtype asked for.
struct ProductPart {
  std::string dtype;
  int products = 1;
  double share = 1;
};

struct Arithmetic {
  std::string dtype;               // asked for; empty: the record does not say
  std::vector<ProductPart> parts;  // one: all products are made alike
  // False: the record says which dtype was asked for, and not how its products were made. Older
  // ones do not, and a peer's do not.
  bool recorded = false;

  // "fp32", "fp32 by 3 fp16 products", "fp32, in part by 3 fp16 products".
  std::string name() const;
  // FLOP/s in the dtype asked for, from those of each dtype; empty: one of them is not known.
  using RateOf = std::function<std::optional<double>(std::string_view dtype)>;
  std::optional<double> ceiling(const RateOf& rate_of) const;
};

// Of a series of a record: "forward", "full_step", ...
Arithmetic arithmetic_of(const Record& record, std::string_view series);

// Whether another path than that of the dtype itself may have run for all that the record says:
// fp32 and tf32 on a GPU, where tensor cores make them out of narrower products.
bool is_ambiguous(const Record& record, const Arithmetic& arithmetic);

}  // namespace ridgeline
