#include "models/adamw.h"

#include <fmt/format.h>

#include <cmath>

#include "base/closest.h"
#include "base/error.h"
#include "graph/scope.h"

namespace ridgeline {
namespace {

void check(const AdamWOptions& options) {
  const auto refuse = [](const char* what, double value, const char* expected) {
    throw Error(ErrorKind::usage,
                fmt::format("AdamW's {} is {}, expected {}", what, value, expected));
  };
  for (const auto& [name, beta] : {std::pair{"beta1", options.beta1}, {"beta2", options.beta2}})
    if (!(beta >= 0 && beta < 1)) refuse(name, beta, "at least 0 and less than 1");
  if (!(options.epsilon > 0)) refuse("eps", options.epsilon, "more than 0");
  if (!(options.weight_decay >= 0)) refuse("weight decay", options.weight_decay, "at least 0");
  if (!(options.max_norm >= 0)) refuse("largest norm", options.max_norm, "at least 0");
}

Tensor clipping_factor(const Tensor& norm, double max_norm) {
  constexpr double kNever0 = 1e-6;
  const Tensor factor = scalar(norm, max_norm) / (norm + kNever0);
  const Tensor one = scalar(norm, 1);
  // In this order a NaN stays one.
  return where(less(one, factor), one, factor);
}

}  // namespace

AdamWVariant parse_adamw_variant(std::string_view name) {
  if (name == "cs336") return AdamWVariant::cs336;
  if (name == "pytorch") return AdamWVariant::pytorch;
  throw unknown_name(name, {.what = "a variant of AdamW", .names = {"cs336", "pytorch"}});
}

Clipping clip_by_norm(std::span<const Tensor> gradients, double max_norm) {
  const Tensor norm = sqrt(sum_of_squares(gradients));
  return {norm, clipping_factor(norm, max_norm)};
}

std::string gradient_name(std::string_view parameter) {
  return "d_" + std::string(parameter);
}

void mark_outputs(std::string_view prefix, const Tensor& parameter, const Tensor& whole) {
  Graph& graph = whole.graph();
  const std::vector<InputPart> parts = graph.input_info(parameter.value()).parts;
  int64_t begin = 0;
  for (const InputPart& part : parts) {
    const int64_t end = begin + part.rows;
    const Tensor rows = parts.size() == 1 ? whole : slice(whole, 0, begin, end);
    graph.mark_output(std::string(prefix) + part.parameter, rows.value());
    begin = end;
  }
}

void add_adamw_step(Graph& graph, const std::vector<TrainedParameter>& parameters,
                    const AdamWOptions& options) {
  check(options);
  const ScopeGuard scope(graph, "optimizer");
  const Tensor scalars(
      graph, graph.input({"optimizer.scalars", Role::step_scalars}, {DType::f32, {kAdamWScalars}}));
  std::vector<AdamWTensors> tensors;
  std::vector<Tensor> gradients;
  for (const TrainedParameter& parameter : parameters) {
    const auto moment = [&](Role role) {
      return input_of_parts(graph, role, graph.input_info(parameter.value.value()).parts,
                            {DType::f32, parameter.value.shape()});
    };
    tensors.push_back({.parameter = parameter.value,
                       .gradient = parameter.gradient,
                       .first_moment = moment(Role::first_moment),
                       .second_moment = moment(Role::second_moment)});
    gradients.push_back(parameter.gradient);
  }
  Tensor gradient_scale, norm;
  if (options.loss_scaling) {
    const Tensor scale = loss_scale(graph);
    gradient_scale = scalar(scale, 1) / scale;
    norm = sqrt(sum_of_squares(gradients)) * gradient_scale;
    if (options.max_norm > 0)
      gradient_scale = gradient_scale * clipping_factor(norm, options.max_norm);
    gradient_scale = zero_unless_finite(gradient_scale, norm);
  } else if (options.max_norm > 0) {
    const Clipping clipping = clip_by_norm(gradients, options.max_norm);
    norm = clipping.norm;
    gradient_scale = clipping.scale;
  }
  if (norm) graph.mark_output("gradient_norm", norm.named("gradient_norm").value());
  const std::vector<AdamWTensors> updated =
      adamw_update(tensors, scalars, gradient_scale,
                   {.beta1 = options.beta1,
                    .beta2 = options.beta2,
                    .epsilon = options.epsilon,
                    .weight_decay = options.weight_decay,
                    .variant = options.variant,
                    .skips = options.loss_scaling.has_value()});
  for (size_t i = 0; i < updated.size(); ++i) {
    const auto mark = [&](Role role, const Tensor& whole) {
      mark_outputs(info(role).prefix, parameters[i].value, whole);
    };
    mark(Role::parameter, updated[i].parameter);
    mark(Role::first_moment, updated[i].first_moment);
    mark(Role::second_moment, updated[i].second_moment);
  }
  if (options.loss_scaling) add_loss_scale_update(graph, norm, *options.loss_scaling);
}

std::array<float, kAdamWScalars> adamw_scalars(const AdamWOptions& options, int64_t step,
                                               double learning_rate) {
  const auto correction = [&](double beta) {
    return static_cast<float>(1 - std::pow(beta, static_cast<double>(step)));
  };
  return {static_cast<float>(learning_rate), correction(options.beta1), correction(options.beta2)};
}

}  // namespace ridgeline
