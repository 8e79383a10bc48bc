#include "studies/host_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/machine_limits.h"
#include "base/random.h"
#include "kernels/host_values.h"

namespace ridgeline {

void random_values(DType dtype, int64_t count, const RandomSource& source,
                   const RangeRunner& in_parallel,
                   const std::function<void(const std::vector<char>&)>& take) {
  // One load is held at a time, never the whole tensor. Each piece has its own generator, so that
  // the values do not depend on the number of threads.
  constexpr int64_t kPiece = 1 << 14, kLoad = 16 * kPiece;
  std::vector<char> stored;
  for (int64_t first = 0; first < count; first += kLoad) {
    const int64_t n = std::min(kLoad, count - first);
    stored.resize(static_cast<size_t>(n * info(dtype).size));
    in_parallel((n + kPiece - 1) / kPiece, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t number = first / kPiece + piece;
        NormalRandom random(source.seed,
                            number == 0 ? source.name : fmt::format("{} {}", source.name, number));
        for (int64_t i = piece * kPiece; i < std::min(n, (piece + 1) * kPiece); ++i)
          store_one(dtype, static_cast<float>(random.next()), stored.data(), i);
      }
    });
    take(stored);
  }
}

void fill_randomly(Device& device, const TensorView& view, uint64_t seed, const std::string& name) {
  HostThreads threads(device);
  char* to = static_cast<char*>(view.data);
  random_values(view.dtype, element_count(view.shape), {seed, name}, threads.runner(),
                [&](const std::vector<char>& stored) {
                  const auto n = static_cast<int64_t>(stored.size()) / info(view.dtype).size;
                  device.upload({to, view.dtype, {n}, {1}}, stored.data());
                  to += stored.size();
                });
}

void upload_rounded(Device& device, const TensorView& view, std::span<const float> values,
                    const RangeRunner& in_parallel) {
  if (view.dtype == DType::f32) return device.upload(view, values.data());
  std::vector<char> stored(values.size() * static_cast<size_t>(info(view.dtype).size));
  in_parallel(static_cast<int64_t>(values.size()), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at)
      store_one(view.dtype, values[static_cast<size_t>(at)], stored.data(), at);
  });
  device.upload(view, stored.data());
}

void draw_parameters(std::span<const Parameter> parameters, uint64_t seed,
                     const RangeRunner& in_parallel,
                     const std::function<void(const Parameter&, std::span<const float>)>& take) {
  const auto together = static_cast<size_t>(available_threads());
  for (size_t first = 0; first < parameters.size(); first += together) {
    const size_t n = std::min(together, parameters.size() - first);
    std::vector<std::vector<float>> drawn(n);
    in_parallel(static_cast<int64_t>(n), [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        drawn[i] = beginning_of(parameters[first + i], seed);
    });
    for (size_t i = 0; i < n; ++i) take(parameters[first + i], drawn[i]);
  }
}

std::vector<double> read_values(const Device& device, const TensorView& view) {
  const int64_t count = element_count(view.shape);
  if (count == 0) return {};
  // One download of the range that the view spans; the host walks the strides.
  const int64_t extent = extent_of(view.shape, view.strides);
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

int64_t offset_of(const Dims& at, const Strides& strides) {
  int64_t offset = 0;
  for (int axis = 0; axis < at.rank(); ++axis) offset += at[axis] * strides[axis];
  return offset;
}

int64_t extent_of(const Shape& shape, const Strides& strides) {
  int64_t extent = 1;
  for (int axis = 0; axis < strides.rank(); ++axis) extent += (shape[axis] - 1) * strides[axis];
  return extent;
}

TensorView sub_tensor(const TensorView& view, int64_t index) {
  return {static_cast<char*>(view.data) + index * view.strides[0] * info(view.dtype).size,
          view.dtype, Shape(view.shape.span().subspan(1)), Strides(view.strides.span().subspan(1))};
}

HostThreads::HostThreads(Device& device) {
  pool_ = device.host_threads();
  if (pool_ != nullptr) return;
  own_ = std::make_unique<ThreadPool>(available_threads());
  pool_ = own_.get();
}

RangeRunner HostThreads::runner() {
  return [this](int64_t count, const std::function<void(int64_t, int64_t)>& body) {
    pool_->for_range(count, 1, body);
  };
}

}  // namespace ridgeline
