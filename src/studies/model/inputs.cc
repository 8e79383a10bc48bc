#include "studies/model/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "measure/machine.h"
#include "models/weight_files.h"
#include "studies/model/loss_scale.h"

namespace ridgeline {
namespace {

constexpr const char* kHeadsKey = "heads";  // in the metadata of a file

}  // namespace

Bytes host_cache_budget(const Device& device) {
  if (!device.has_own_memory()) return {};
  return {collect_machine_facts().memory_available.count / 4};
}

// Shapes do not determine the number of heads, so saved files hold it in their metadata.
void check_model_weights(const std::filesystem::path& path, const TransformerConfig& config) {
  const WeightFiles files(path);
  check_weights(files, transformer_parameters(config));
  const std::map<std::string, std::string>& metadata = files.files()[0].header().metadata;
  const auto heads = metadata.find(kHeadsKey);
  if (heads != metadata.end() && heads->second != fmt::to_string(config.heads))
    throw Error(ErrorKind::usage,
                fmt::format("'{}' is of a model with {} heads, expected {}", path.string(),
                            shown_name(heads->second), config.heads));
}

ModelInputs::ModelInputs(Device& device, ModelInputOptions options)
    : device_(device), options_(std::move(options)) {}

std::vector<int32_t> ModelInputs::ids(const TransformerConfig& config,
                                      const std::string& name) const {
  NormalRandom random(options_.seed, name);
  std::vector<int32_t> drawn(static_cast<size_t>(config.batch_size * config.context_length));
  for (int32_t& id : drawn)
    id = static_cast<int32_t>(random.next_bits() % static_cast<uint64_t>(config.vocabulary));
  return drawn;
}

void ModelInputs::fill_with(const TensorView& view, std::span<const float> values) {
  const int64_t count = element_count(view.shape), load = static_cast<int64_t>(values.size());
  for (int64_t first = 0; first < count; first += load)
    device_.upload({view.as<float>() + first, view.dtype, {std::min(load, count - first)}, {1}},
                   values.data());
}

void ModelInputs::upload_parameter(const Executable& executable, const std::string& name,
                                   std::span<const float> values, const RangeRunner& in_parallel) {
  const Executable::Held held = executable.held(name);
  if (held.count > 0)
    upload_rounded(device_, held.view,
                   values.subspan(static_cast<size_t>(held.begin), static_cast<size_t>(held.count)),
                   in_parallel);
  const std::string copy = tensor_name(Role::copy, name);
  if (executable.has_input(copy))
    upload_rounded(device_, executable.input(copy), values, in_parallel);
}

void ModelInputs::upload_parameter(const Executable& executable, const std::string& name,
                                   std::span<const float> values) {
  HostThreads threads(device_);
  upload_parameter(executable, name, values, threads.runner());
}

void ModelInputs::fill_parameters(const Executable& executable, const TransformerConfig& config) {
  HostThreads threads(device_);
  const RangeRunner in_parallel = threads.runner();
  const TakeValues take = [&](const Parameter& parameter, std::span<const float> values) {
    upload_parameter(executable, parameter.name, values, in_parallel);
  };
  if (options_.weights.empty()) return draw(config, in_parallel, take);
  check_model_weights(options_.weights, config);
  load_weights(options_.weights, transformer_parameters(config), take);
}

void ModelInputs::draw(const TransformerConfig& config, const RangeRunner& in_parallel,
                       const TakeValues& take) {
  const std::vector<Parameter> parameters = transformer_parameters(config);
  const std::string key =
      fmt::format("{} {} {} {}", config.d_model, config.d_ff, config.layers, config.vocabulary);
  if (key == kept_key_) {
    for (size_t i = 0; i < parameters.size(); ++i) take(parameters[i], kept_[i]);
    return;
  }
  kept_.clear();
  kept_key_.clear();
  const bool keep = Bytes{parameter_count(config) * 4} <= options_.keep;
  draw_parameters(parameters, options_.seed, in_parallel,
                  [&](const Parameter& parameter, std::span<const float> values) {
                    take(parameter, values);
                    if (keep) kept_.emplace_back(values.begin(), values.end());
                  });
  if (keep) kept_key_ = key;
}

void ModelInputs::save_weights(const Executable& executable, const TransformerConfig& config,
                               int64_t steps, const std::filesystem::path& path) const {
  const auto values_of = [&](const Parameter& parameter) {
    std::vector<float> values(static_cast<size_t>(element_count(parameter.shape)));
    device_.download(executable.input(parameter.name), values.data());
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
      throw Error(ErrorKind::wrong_result,
                  fmt::format("'{}' is not finite after {} steps; no weights were saved",
                              parameter.name, steps));
    return values;
  };
  ridgeline::save_weights(
      path, transformer_parameters(config), values_of,
      {{kHeadsKey, fmt::to_string(config.heads)}, {"steps", fmt::to_string(steps)}});
}

void ModelInputs::save_logits(const Executable& executable, const TransformerConfig& config,
                              const std::filesystem::path& path) const {
  const auto values_of = [&](const Parameter& tensor) {
    if (tensor.name == "tokens") {
      const std::vector<int32_t> tokens = ids(config, tensor.name);
      return std::vector<float>(tokens.begin(), tokens.end());
    }
    const std::vector<double> logits = read_values(device_, executable.output(tensor.name));
    return std::vector<float>(logits.begin(), logits.end());
  };
  const Shape tokens = {config.batch_size, config.context_length};
  const Shape logits = {config.batch_size, config.context_length, config.vocabulary};
  ridgeline::save_weights(path,
                          std::vector<Parameter>{{.name = "tokens", .shape = tokens},
                                                 {.name = "logits", .shape = logits}},
                          values_of, {{kHeadsKey, fmt::to_string(config.heads)}});
}

void ModelInputs::fill(const Executable& executable, const TransformerConfig& config) {
  const std::vector<float> zeros(1 << 22);
  for (Value value : executable.graph().inputs())
    if (const InputInfo& input = executable.graph().input_info(value); input.ranks > 1)
      fill_with(executable.input(input.name), zeros);
  fill_parameters(executable, config);
  const RopeValues rope = rope_values(config.context_length, config.head_dim(), config.rope_theta);
  for (Value value : executable.graph().inputs()) {
    const auto& [whole, role, parts, ranks] = executable.graph().input_info(value);
    if (whole == "tokens" || whole == "targets")
      device_.upload(executable.input(whole), ids(config, whole).data());
    else if (whole == "rope.cos")
      device_.upload(executable.input(whole), rope.cos.data());
    else if (whole == "rope.sin")
      device_.upload(executable.input(whole), rope.sin.data());
    else if (whole == kLossScaleInput)
      set_loss_scale(executable, device_, options_.loss_scale);
    else if (ranks > 1)
      continue;  // filled above
    else if (role == Role::first_moment || role == Role::second_moment)
      for (const InputPart& part : parts)
        fill_with(executable.input(tensor_name(role, part.parameter)), zeros);
  }
}

void ModelInputs::fill_unevenly(const Executable& executable, const TransformerConfig& config) {
  constexpr size_t kPeriod = 1 << 16;
  constexpr double kMoment = 1e-3;
  fill(executable, config);
  HostThreads threads(device_);
  NormalRandom random(options_.seed, "uneven");
  for (const Parameter& parameter : transformer_parameters(config)) {
    if (parameter.beginning != Parameter::Beginning::ones) continue;
    std::vector<float> values(static_cast<size_t>(element_count(parameter.shape)));
    for (float& value : values) value = static_cast<float>(0.5 + random.uniform());
    upload_parameter(executable, parameter.name, values, threads.runner());
  }
  if (scenario_of(executable) != Scenario::full_step) return;
  std::vector<float> first(kPeriod), second(kPeriod);
  for (size_t i = 1; i < kPeriod; i += 2) {
    first[i] = static_cast<float>(kMoment * random.next());
    second[i] = static_cast<float>(std::pow(kMoment * random.next(), 2));
  }
  for (const Parameter& parameter : transformer_parameters(config)) {
    fill_with(executable.input(tensor_name(Role::first_moment, parameter.name)), first);
    fill_with(executable.input(tensor_name(Role::second_moment, parameter.name)), second);
  }
}

void ModelInputs::set_step(const Executable& executable, int64_t step,
                           const AdamWOptions& optimizer) {
  if (scenario_of(executable) != Scenario::full_step) return;
  const auto scalars = adamw_scalars(optimizer, step, optimizer.learning_rate);
  device_.upload(executable.input("optimizer.scalars"), scalars.data());
}

}  // namespace ridgeline
