// Separate from the table of kernels, so that a program that calls one kernel links only that one.
#include "kernels/cpu/kernels.h"

namespace ridgeline {

Error no_tf32() {
  return {ErrorKind::unsupported, "tf32 is a mode of GPU tensor cores; the CPU has none",
          "use fp32, bf16 or fp16, or a GPU (--device cuda)"};
}

}  // namespace ridgeline
