// Fills tensors of any device with reproducible values, reads them back, and provides host threads
// to check them with.
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

// Determines a sequence of random values.
struct RandomSource {
  uint64_t seed = 42;
  std::string name;  // of the tensor
};

// Passes normal random values, rounded to the dtype, to `take` in order, in parts of bounded size.
void random_values(DType dtype, int64_t count, const RandomSource& source, const RangeRunner& run,
                   const std::function<void(const std::vector<char>&)>& take);

// Fills a contiguous view with normal random values that depend only on the seed and the name.
void fill_randomly(Device& device, const TensorView& view, uint64_t seed, const std::string& name);

// Rounds the values to the dtype of the contiguous view and uploads them.
void upload_rounded(Device& device, const TensorView& view, std::span<const float> values,
                    const RangeRunner& in_parallel);

// Draws the initial values of parameters, several in parallel, and passes them to `take` in order.
void draw_parameters(std::span<const Parameter> parameters, uint64_t seed,
                     const RangeRunner& in_parallel,
                     const std::function<void(const Parameter&, std::span<const float>)>& take);

// Downloads the values in row-major order, whatever the strides.
std::vector<double> read_values(const Device& device, const TensorView& view);

// The distance of an element from the first one, in elements.
int64_t offset_of(const Dims& at, const Strides& strides);
// The number of elements from the first to the last in memory.
int64_t extent_of(const Shape& shape, const Strides& strides);

// The view of element `index` along the first axis.
TensorView sub_tensor(const TensorView& view, int64_t index);

// The threads of a CPU device; for a GPU, a thread pool of its own.
class HostThreads {
 public:
  explicit HostThreads(Device& device);
  RangeRunner runner();

 private:
  std::unique_ptr<ThreadPool> own_;
  ThreadPool* pool_ = nullptr;
};

}  // namespace ridgeline
