#include "studies/host_tensors.h"

#include <algorithm>

#include "base/random.h"
#include "kernels/host_values.h"
#include "runtime/cpu_device.h"

namespace ridgeline {

void fill_randomly(Device& device, const TensorView& view, uint64_t seed, const std::string& name) {
  // Piece by piece, so that filling needs no second copy of the tensor.
  constexpr int64_t kPiece = 1 << 18;
  NormalRandom random(seed, name);
  const int size = info(view.dtype).size;
  const int64_t count = element_count(view.shape);
  std::vector<char> stored(static_cast<size_t>(std::min(kPiece, count) * size));
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t n = std::min(kPiece, count - first);
    for (int64_t i = 0; i < n; ++i)
      store_one(view.dtype, static_cast<float>(random.next()), stored.data(), i);
    device.upload({static_cast<char*>(view.data) + first * size, view.dtype, {n}, {1}},
                  stored.data());
  }
}

std::vector<double> read_values(const Device& device, const TensorView& view) {
  const int64_t count = element_count(view.shape);
  if (count == 0) return {};
  // One copy of the stretch that the view touches; its strides are walked on this side.
  int64_t extent = 1;
  for (int axis = 0; axis < view.shape.rank(); ++axis)
    extent += (view.shape[axis] - 1) * view.strides[axis];
  std::vector<char> stored(static_cast<size_t>(extent * info(view.dtype).size));
  device.download({view.data, view.dtype, {extent}, {1}}, stored.data());

  std::vector<double> values;
  values.reserve(static_cast<size_t>(count));
  Dims at = Dims::filled(view.shape.rank(), 0);
  int64_t offset = 0;
  while (static_cast<int64_t>(values.size()) < count) {
    values.push_back(load_one(view.dtype, stored.data(), offset));
    for (int axis = view.shape.rank() - 1; axis >= 0; --axis) {
      offset += view.strides[axis];
      if (++at[axis] < view.shape[axis]) break;
      offset -= view.shape[axis] * view.strides[axis];
      at[axis] = 0;
    }
  }
  return values;
}

TensorView sub_tensor(const TensorView& view, int64_t index) {
  return {static_cast<char*>(view.data) + index * view.strides[0] * info(view.dtype).size,
          view.dtype, Shape(view.shape.span().subspan(1)), Strides(view.strides.span().subspan(1))};
}

HostThreads::HostThreads(Device& device) {
  if (auto* cpu = dynamic_cast<CpuDevice*>(&device)) {
    pool_ = &cpu->pool();
  } else {
    own_ = std::make_unique<ThreadPool>(available_threads());
    pool_ = own_.get();
  }
}

RangeRunner HostThreads::runner() {
  return [this](int64_t count, const std::function<void(int64_t, int64_t)>& body) {
    pool_->for_range(count, 1, body);
  };
}

}  // namespace ridgeline
