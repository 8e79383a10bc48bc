#include "dist/collective.h"

#include <fmt/format.h>

#include "base/units.h"

namespace ridgeline {

std::string describe(const Collective& what) {
  if (what.kind == CollectiveKind::barrier)
    return what.name.empty() ? "barrier" : fmt::format("barrier ({})", what.name);
  return fmt::format("{} of {} in {}{}", name(what.kind), to_string(Bytes{what.bytes()}),
                     info(what.dtype).name,
                     what.name.empty() ? std::string() : fmt::format(" ({})", what.name));
}

}  // namespace ridgeline
