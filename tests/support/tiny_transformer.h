// The smallest transformer that still has everything, for tests of studies.
#pragma once

#include "models/transformer_lm.h"

namespace ridgeline::testing {

inline TransformerConfig tiny_transformer() {
  return {.name = "tiny",
          .d_model = 32,
          .d_ff = 48,
          .layers = 2,
          .heads = 2,
          .vocabulary = 96,
          .batch_size = 2,
          .context_length = 16};
}

}  // namespace ridgeline::testing
