#include "studies/model/loss_scale.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/adamw.h"
#include "studies/host_tensors.h"

namespace ridgeline {
namespace {

// Reads all of a gradient, or evenly spaced rows of a large one.
std::vector<double> some_values(const Device& device, const TensorView& gradient) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t count = element_count(gradient.shape), rows = gradient.shape[0];
  if (count <= kMost) return read_values(device, gradient);
  const int64_t taken = std::clamp<int64_t>(kMost / (count / rows), 1, rows);
  std::vector<double> values;
  for (int64_t i = 0; i < taken; ++i) {
    const std::vector<double> row = read_values(device, sub_tensor(gradient, i * rows / taken));
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

struct Gradient {
  std::string name;
  std::vector<double> values;
};

std::vector<Gradient> gradients_of(const Executable& executable, const Device& device) {
  std::vector<Gradient> gradients;
  for (const Output& output : executable.graph().outputs())
    if (output.name.starts_with(gradient_name("")))
      gradients.push_back({output.name, some_values(device, executable.output(output.name))});
  return gradients;
}

bool all_finite(const std::vector<Gradient>& gradients) {
  return std::ranges::all_of(gradients, [](const Gradient& gradient) {
    return std::ranges::all_of(gradient.values, [](double value) { return std::isfinite(value); });
  });
}

double flushed_share(const Gradient& without, const Gradient& with) {
  int64_t flushed = 0;
  for (size_t i = 0; i < with.values.size(); ++i)
    flushed += without.values[i] == 0 && with.values[i] != 0;
  return static_cast<double>(flushed) / static_cast<double>(with.values.size());
}

}  // namespace

LossScale read_loss_scale(const Executable& executable, const Device& device) {
  const std::vector<double> state = read_values(device, executable.input(kLossScaleInput));
  const auto of = [&](LossScaleState which) { return state[static_cast<size_t>(which)]; };
  return {of(LossScaleState::scale), static_cast<int64_t>(of(LossScaleState::skipped_steps))};
}

void set_loss_scale(const Executable& executable, Device& device, double scale) {
  float state[kLossScaleState] = {};
  state[static_cast<size_t>(LossScaleState::scale)] = static_cast<float>(scale);
  device.upload(executable.input(kLossScaleInput), state);
}

Json to_json(const Underflow& underflow) {
  return {{"tensor", underflow.tensor}, {"share", underflow.share}, {"scale", underflow.scale}};
}

std::optional<Underflow> find_underflow(const Executable& executable, Device& device,
                                        const std::function<void()>& run, double weight) {
  const double before = read_loss_scale(executable, device).scale;
  const auto run_with = [&](double scale) {
    set_loss_scale(executable, device, weight * scale);
    run();
    device.synchronize();
    return gradients_of(executable, device);
  };
  const std::vector<Gradient> without = run_with(1);
  std::optional<Underflow> worst;
  for (double scale = LossScaling{}.initial; scale > 1 && !worst; scale /= 2) {
    const std::vector<Gradient> with = run_with(scale);
    if (!all_finite(with)) continue;
    for (size_t i = 0; i < with.size(); ++i)
      if (const double share = flushed_share(without[i], with[i]); !worst || share > worst->share)
        worst = {with[i].name, share, scale};
  }
  set_loss_scale(executable, device, before);
  return worst;
}

}  // namespace ridgeline
