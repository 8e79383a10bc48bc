#include "dist/communicator.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"

namespace ridgeline {

std::string describe(const Collective& what) {
  if (what.kind == CollectiveKind::barrier)
    return what.name.empty() ? "barrier" : fmt::format("barrier ({})", what.name);
  return fmt::format("{} of {} in {}{}", name(what.kind), to_string(Bytes{what.bytes()}),
                     info(what.dtype).name,
                     what.name.empty() ? std::string() : fmt::format(" ({})", what.name));
}

void check_collective(const Collective& what, int ranks) {
  const bool sums =
      what.kind == CollectiveKind::all_reduce || what.kind == CollectiveKind::reduce_scatter;
  if (sums && !is_floating(what.dtype))
    throw Error(ErrorKind::usage,
                fmt::format("a sum over ranks in {} was asked for", info(what.dtype).name),
                "sums exist in fp32, bf16 and fp16");
  if (what.kind == CollectiveKind::broadcast && (what.root < 0 || what.root >= ranks))
    throw Error(ErrorKind::usage,
                fmt::format("a broadcast from rank {} was asked for, and ranks are 0 to {}",
                            what.root, ranks - 1));
  if (what.count < 0)
    throw Error(ErrorKind::usage, fmt::format("a collective of {} elements", what.count));
  const bool needs_in = what.kind != CollectiveKind::broadcast;
  if (what.kind != CollectiveKind::barrier && what.count > 0 &&
      (what.out == nullptr || (needs_in && what.in == nullptr)))
    throw Error(ErrorKind::usage, fmt::format("{} has no buffer", describe(what)));
}

}  // namespace ridgeline
