// Which template implements a reduction: a row fold, a column fold, a copy, or the library.
#pragma once

#include "graph/graph.h"
#include "plan/fuse.h"

namespace ridgeline {

enum class ReductionForm : uint8_t { rows, columns, copy, library };

struct Reduction {
  ReductionForm form = ReductionForm::library;
  Shape domain = {};  // the input's shape with its folded, or its kept, trailing axes merged
  FusionRefusal why = FusionRefusal::several_axes;  // why the library, if so
};

Reduction classify_reduction(const Node& node, const Shape& input);

}  // namespace ridgeline
