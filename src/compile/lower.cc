#include "compile/lower.h"

#include "passes/autocast.h"
#include "passes/decompose.h"
#include "passes/master_weights.h"
#include "passes/pack.h"
#include "passes/simplify.h"
#include "passes/tf32.h"

namespace ridgeline {
namespace {

Graph with_products_in(const Graph& forward, std::optional<DType> dtype) {
  if (!dtype) return forward;
  return *dtype == DType::tf32 ? tf32_products(forward) : autocast(forward, *dtype);
}

}  // namespace

Lowered lower(const Trace& trace, const CompileOptions& options) {
  const ModeInfo& rungs = info(options.mode);
  const auto begin = [&](std::string_view stage) {
    if (options.stage) options.stage(stage);
  };
  Lowered lowered;
  begin("trace");
  lowered.graph = trace([&](const Graph& traced) {
    Graph forward = with_products_in(traced, options.products);
    if (rungs.flash) forward = flash(forward, {.backward = options.backward}, &lowered.flash);
    return rungs.fuse ? pack(forward) : forward;
  });
  begin("passes");
  if (options.distribution) lowered.graph = distribute(lowered.graph, *options.distribution);
  if (rungs.fuse) lowered.graph = master_weights(simplify(decompose(lowered.graph)));
  if (options.checkpoint_blocks > 0)
    lowered.graph = checkpoint(lowered.graph, options.checkpoint_blocks, &lowered.checkpoint);
  return lowered;
}

}  // namespace ridgeline
