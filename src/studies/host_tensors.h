// Tensors of any device as seen from the host: filled with reproducible values, read back, and
// threads to check them with.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "kernels/reference/attention_oracle.h"
#include "models/layers.h"
#include "runtime/device.h"

namespace ridgeline {

// What decides random values.
struct RandomSource {
  uint64_t seed = 42;
  std::string name;  // of the tensor
};

// Normal random values as they are stored, in parts of bounded size, first to last.
void random_values(DType dtype, int64_t count, const RandomSource& source, const RangeRunner& run,
                   const std::function<void(const std::vector<char>&)>& take);

// Normal random values, the same for a seed and a name on every device. `view` is contiguous.
void fill_randomly(Device& device, const TensorView& view, uint64_t seed, const std::string& name);

// Uploads them rounded to the dtype of `view`, which is contiguous.
void upload_rounded(Device& device, const TensorView& view, std::span<const float> values,
                    const RangeRunner& in_parallel);

// What parameters begin with, each handed over as it is drawn, in order; threads draw several at a
// time.
void draw_parameters(std::span<const Parameter> parameters, uint64_t seed,
                     const RangeRunner& in_parallel,
                     const std::function<void(const Parameter&, std::span<const float>)>& take);

// The values in row-major order, whatever the strides.
std::vector<double> read_values(const Device& device, const TensorView& view);

// Element `index` along the first axis.
TensorView sub_tensor(const TensorView& view, int64_t index);

// The threads of a CPU device, or threads of its own beside a GPU.
class HostThreads {
 public:
  explicit HostThreads(Device& device);
  RangeRunner runner();

 private:
  std::unique_ptr<ThreadPool> own_;
  ThreadPool* pool_ = nullptr;
};

}  // namespace ridgeline
