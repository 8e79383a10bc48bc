#include "studies/model/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/larger.h"
#include "base/random.h"
#include "studies/host_tensors.h"
#include "studies/model/loss_scale.h"

namespace ridgeline {
namespace {

constexpr int64_t kComparedTokens = 16;       // whose logits are sampled
constexpr int64_t kWholeParameter = 1024;     // elements: up to here all gradients are compared
constexpr size_t kElementsPerParameter = 32;  // of larger parameters
constexpr double kRoundings = 4;              // epsilons of the largest gradient: mere rounding
constexpr double kVanishing = 0.01;           // of the largest gradient: smaller ones may vanish

double read_one(const Device& device, const TensorView& view, int64_t element) {
  int64_t offset = 0;
  for (int axis = view.shape.rank() - 1; axis >= 0; --axis) {
    offset += element % view.shape[axis] * view.strides[axis];
    element /= view.shape[axis];
  }
  char* data = static_cast<char*>(view.data) + offset * info(view.dtype).size;
  return read_values(device, {data, view.dtype, {1}, {1}})[0];
}

double logit_variance(const TransformerConfig& config) {
  const auto width = static_cast<double>(config.d_model);
  return 2 * width / (width + static_cast<double>(config.vocabulary));
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum);
}

bool all_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

// |a - b| / |b|. Where b vanishes beside `largest`, like the gradient of a query with one key, only
// the rounding of fp32 sums is left: then the distance is relative to a share of `largest`.
double relative_distance(const std::vector<double>& a, const std::vector<double>& b,
                         double largest = 0) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  std::vector<double> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  const double distance = norm(difference);
  if (distance == 0) return 0;
  const bool rounds = distance <= kRoundings * info(DType::f32).epsilon * largest;
  return distance / (rounds ? std::max(norm(b), kVanishing * largest) : norm(b));
}

struct GradientDistance {
  double typical = 0;  // root mean square over the parameters
  double worst = 0;
};

GradientDistance gradient_distance(const ModelSample& sample, const ModelSample& reference) {
  double largest = 0;
  for (const auto& [name, expected] : reference.gradients)
    largest = std::max(largest, norm(expected));
  GradientDistance distance;
  double squares = 0;
  for (const auto& [name, expected] : reference.gradients) {
    const auto found = sample.gradients.find(name);
    const double of = found == sample.gradients.end()
                          ? std::numeric_limits<double>::infinity()
                          : relative_distance(found->second, expected, largest);
    squares += of * of;
    distance.worst = larger(distance.worst, of);
  }
  distance.typical = std::sqrt(squares / static_cast<double>(reference.gradients.size()));
  return distance;
}

}  // namespace

ModelSampler::ModelSampler(const Executable& executable, const Device& device,
                           const TransformerConfig& config, std::vector<int32_t> targets,
                           uint64_t seed, const AdamWOptions& optimizer)
    : executable_(executable),
      device_(device),
      config_(config),
      targets_(std::move(targets)),
      optimizer_(optimizer) {
  NormalRandom random(seed, "samples");
  const auto below = [&](int64_t count) {
    return static_cast<int64_t>(random.next_bits() % static_cast<uint64_t>(count));
  };
  if (scenario_of(executable) == Scenario::forward) {
    // One token from each of equal intervals, so that none is sampled twice.
    const auto all = static_cast<int64_t>(targets_.size()), count = std::min(kComparedTokens, all);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = i * all / count, end = (i + 1) * all / count;
      tokens_.push_back(begin + below(end - begin));
    }
    return;
  }
  for (const Parameter& parameter : transformer_parameters(config)) {
    Places places{parameter.name, {}};
    const int64_t count = element_count(parameter.shape);
    if (count > kWholeParameter) places.elements = {0, count - 1};
    while (count > kWholeParameter && places.elements.size() < kElementsPerParameter)
      places.elements.push_back(below(count));
    places_.push_back(std::move(places));
  }
}

void ModelSampler::sample_logits(ModelSample& sample) const {
  const TensorView all = executable_.output("logits");
  for (int64_t token : tokens_) {
    const std::vector<double> logits = read_values(device_, sub_tensor(all, token));
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (double logit : logits) sum += std::exp(logit - largest);
    const auto target = static_cast<size_t>(targets_[static_cast<size_t>(token)]);
    sample.loss += (largest + std::log(sum) - logits[target]) / static_cast<double>(tokens_.size());
    sample.logits.insert(sample.logits.end(), logits.begin(), logits.end());
  }
}

std::vector<double> ModelSampler::values(const Places& places, const std::string& output) const {
  const TensorView view = executable_.output(output);
  if (places.elements.empty()) return read_values(device_, view);
  std::vector<double> values;
  for (int64_t element : places.elements) values.push_back(read_one(device_, view, element));
  return values;
}

double ModelSampler::clipped_norm() const {
  double squares = 0;
  for (const Parameter& parameter : transformer_parameters(config_))
    for (double m :
         read_values(device_, executable_.output(tensor_name(Role::first_moment, parameter.name))))
      squares += m * m;
  return std::sqrt(squares) / (1 - optimizer_.beta1);
}

void ModelSampler::sample_gradients(ModelSample& sample) const {
  sample.loss = read_values(device_, executable_.output("loss"))[0];
  const bool updates = scenario_of(executable_) == Scenario::full_step;
  // After the first step the first moment is 1 - beta1 times the clipped gradient.
  double share = updates ? 1 - optimizer_.beta1 : 1;
  if (!updates && executable_.has_input(kLossScaleInput))
    share *= read_loss_scale(executable_, device_).scale;
  if (executable_.has_output("gradient_norm"))
    sample.gradient_norm = read_values(device_, executable_.output("gradient_norm"))[0];
  if (updates && optimizer_.max_norm > 0) {
    const double norm = sample.gradient_norm.value();
    const double clipping = std::min(1.0, optimizer_.max_norm / (norm + 1e-6));
    sample.clipping_error = relative_distance({clipped_norm()}, {norm * clipping});
    share *= clipping;
  }
  for (const Places& places : places_)
    for (double value : values(places, updates ? tensor_name(Role::first_moment, places.parameter)
                                               : gradient_name(places.parameter)))
      sample.gradients[places.parameter].push_back(value / share);
}

ModelSample ModelSampler::after_run() const {
  ModelSample sample;
  if (scenario_of(executable_) == Scenario::forward)
    sample_logits(sample);
  else
    sample_gradients(sample);
  return sample;
}

bool has_finite_gradients(const ModelSample& sample) {
  return std::isfinite(sample.gradient_norm.value_or(0)) &&
         std::ranges::all_of(sample.gradients,
                             [](const auto& gradient) { return all_finite(gradient.second); });
}

ExpectedLoss expected_loss(const TransformerConfig& config, int64_t tokens) {
  const double variance = logit_variance(config);
  const double uniform = std::log(static_cast<double>(config.vocabulary));
  // The targets' logits scatter around 0; the other terms allow for deviations of small models.
  const double scatter = 5 * std::sqrt(variance / static_cast<double>(tokens));
  return {uniform + variance / 2, scatter + 0.02 * uniform + variance / 4};
}

double update_settings_error(const Executable& executable, const Device& device,
                             const AdamWOptions& optimizer, int64_t step) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto t = static_cast<double>(step);
  const double expected[] = {optimizer.learning_rate, 1 - std::pow(optimizer.beta1, t),
                             1 - std::pow(optimizer.beta2, t)};
  const std::vector<double> scalars = read_values(device, executable.input("optimizer.scalars"));
  double error = 0;
  for (size_t i = 0; i < scalars.size(); ++i)
    error = larger(error, relative_distance({scalars[i]}, {expected[i]}));
  bool updates = false;
  for (const Node& node : executable.graph().nodes()) {
    if (node.op != Op::adamw_update) continue;
    const auto& spec = std::get<AdamWSpec>(node.attributes.detail);
    const bool same = spec.beta1 == optimizer.beta1 && spec.beta2 == optimizer.beta2 &&
                      spec.epsilon == optimizer.epsilon &&
                      spec.weight_decay == optimizer.weight_decay &&
                      spec.variant == optimizer.variant &&
                      spec.scaled == (optimizer.max_norm > 0 || optimizer.loss_scaling) &&
                      spec.skips == optimizer.loss_scaling.has_value();
    if (!same) error = kInfinity;
    updates = true;
  }
  return updates ? error : kInfinity;
}

void compare_samples(const ModelWorkload& workload, Scenario scenario, const ModelSample& sample,
                     const std::optional<ModelSample>& reference, Verification& verification) {
  const TransformerConfig& config = workload.config;
  const std::string prefix = fmt::format("{}.", info(scenario).series);
  const auto add = [&](const char* what, double error, double tolerance) {
    verification.tensors.push_back({prefix + what, error, tolerance});
    verification.checked = true;
  };
  verification.oracle = "fp64, kernel by kernel; vanilla in the same run";
  if (sample.is_drawn) verification.oracle += "; the loss that the beginning implies";
  verification.what =
      "errors relative to vanilla's values at seeded samples; initial_loss in nats; kernels and "
      "optimizer in parts of what roundings allow";
  const bool is_forward = scenario == Scenario::forward;
  const int64_t all = config.batch_size * config.context_length;
  const int64_t tokens =
      is_forward ? std::min(kComparedTokens, all) : all;  // that the loss averages
  const ExpectedLoss expected = expected_loss(config, tokens);
  if (sample.is_drawn)
    add("initial_loss", std::abs(sample.loss - expected.loss), expected.tolerance);
  if (sample.clipping_error) add("clipping", *sample.clipping_error, 1e-4);
  if (!reference) {  // nothing else would detect non-finite values
    const auto expect_finite = [&](const char* what, const std::vector<double>& values) {
      if (!all_finite(values)) add(what, std::numeric_limits<double>::quiet_NaN(), 0);
    };
    expect_finite("loss", {sample.loss});
    expect_finite("gradient_norm", {sample.gradient_norm.value_or(0)});
    expect_finite("logits", sample.logits);
    for (const auto& [name, values] : sample.gradients)
      expect_finite(gradient_name(name).c_str(), values);
    return;
  }
  // Products round to their dtype; fp32 sums may be added in another order.
  const double epsilon = info(info(workload.precision).products).epsilon;
  add("loss", std::abs(sample.loss - reference->loss) / std::max(1.0, std::abs(reference->loss)),
      epsilon * std::max(0.5, 2 / std::sqrt(tokens)) + 5e-6);
  if (is_forward) {
    add("logits", relative_distance(sample.logits, reference->logits), 4 * epsilon + 2e-5);
    return;
  }
  if (sample.gradient_norm && reference->gradient_norm)
    add("gradient_norm", relative_distance({*sample.gradient_norm}, {*reference->gradient_norm}),
        8 * epsilon + 1e-4);
  const GradientDistance gradients = gradient_distance(sample, *reference);
  add("gradients", gradients.typical, 8 * epsilon + 1e-4);
  // The smallest fp16 gradients pass through subnormals, where rounding is coarser.
  const bool underflows = info(workload.precision).products == DType::f16;
  add("worst_gradient", gradients.worst, (underflows ? 48 : 32) * epsilon + 1e-3);
}

}  // namespace ridgeline
