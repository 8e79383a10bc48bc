// Ops that access rows and elements by index, by definition.
#include <fmt/format.h>

#include "base/error.h"
#include "support/interpreter/evaluators.h"

namespace ridgeline::reference {
namespace {

// Returns the index, or throws a usage error if it is not in [0, count).
int64_t checked_index(double index, int64_t count) {
  const auto at = static_cast<int64_t>(index);
  if (at < 0 || at >= count)
    throw Error(ErrorKind::usage, fmt::format("index {} is outside [0, {})", at, count));
  return at;
}

}  // namespace

Data gather(const Call& call) {
  const Operand& table = call.inputs[0];
  return fill(call.shape, [&](const Dims& at) {
    const double index = call.inputs[1].data[static_cast<size_t>(at[0])];
    const Dims source = {checked_index(index, table.shape[0]), at[1]};
    return table.data[static_cast<size_t>(flat_index(table.shape, source))];
  });
}

Data scatter_add(const Call& call) {
  Data result(static_cast<size_t>(element_count(call.shape)));
  const Operand& updates = call.inputs[1];
  for (int64_t flat = 0; flat < static_cast<int64_t>(updates.data.size()); ++flat) {
    const Dims at = coordinates(updates.shape, flat);
    const double index = call.inputs[0].data[static_cast<size_t>(at[0])];
    const Dims to = {checked_index(index, call.shape[0]), at[1]};
    result[static_cast<size_t>(flat_index(call.shape, to))] +=
        updates.data[static_cast<size_t>(flat)];
  }
  return result;
}

Data pick(const Call& call) {
  const Operand& x = call.inputs[0];
  return fill(call.shape, [&](const Dims& at) {
    const double index = call.inputs[1].data[static_cast<size_t>(at[0])];
    const Dims source = {at[0], checked_index(index, x.shape[1])};
    return x.data[static_cast<size_t>(flat_index(x.shape, source))];
  });
}

Data place(const Call& call) {
  return fill(call.shape, [&](const Dims& at) {
    const auto row = static_cast<size_t>(at[0]);
    const bool here = checked_index(call.inputs[0].data[row], call.shape[1]) == at[1];
    return here ? call.inputs[1].data[row] : 0.0;
  });
}

}  // namespace ridgeline::reference
