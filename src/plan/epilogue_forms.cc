#include "plan/epilogue_forms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "plan/program.h"

namespace ridgeline {
namespace {

// Arguments at which functions are compared: around the bend, and where they have settled.
constexpr std::array kPoints = {-30.0, -6.5, -3.1, -2.0, -1.3, -0.7, -0.2, -0.01, 0.0,
                                0.01,  0.3,  0.75, 1.0,  1.7,  2.5,  4.0,  8.0,   30.0};
using Values = std::array<double, kPoints.size()>;

double relu(double x) {
  return std::max(x, 0.0);
}
double gelu(double x) {
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

Activation activation_of(const Values& values) {
  const auto is = [&](double (*function)(double)) {
    for (size_t i = 0; i < kPoints.size(); ++i) {
      const double expected = function(kPoints[i]);
      if (!(std::abs(values[i] - expected) <= 1e-6 * (1 + std::abs(expected)))) return false;
    }
    return true;
  };
  return is(relu) ? Activation::relu : is(gelu) ? Activation::gelu : Activation::none;
}

// Of the ops that activations are made of; nothing for others.
std::optional<double> evaluate(Op op, const std::array<double, 3>& x) {
  switch (op) {
    case Op::cast:
      return x[0];
    case Op::negate:
      return -x[0];
    case Op::exp:
      return std::exp(x[0]);
    case Op::tanh:
      return std::tanh(x[0]);
    case Op::sigmoid:
      return 1 / (1 + std::exp(-x[0]));
    case Op::add:
      return x[0] + x[1];
    case Op::subtract:
      return x[0] - x[1];
    case Op::multiply:
      return x[0] * x[1];
    case Op::divide:
      return x[0] / x[1];
    case Op::maximum:
      return std::max(x[0], x[1]);
    case Op::less:
      return x[0] < x[1] ? 1 : 0;
    case Op::less_equal:
      return x[0] <= x[1] ? 1 : 0;
    case Op::where:
      return x[0] != 0 ? x[1] : x[2];
    default:
      return std::nullopt;
  }
}

std::optional<Values> values_of(const FusedStep& step,
                                const std::vector<std::optional<Values>>& known) {
  Values values{};
  if (step.kind == FusedStep::Kind::constant) {
    values.fill(step.constant);
    return values;
  }
  if (step.kind != FusedStep::Kind::compute || step.inputs.size() > 3) return std::nullopt;
  for (uint32_t input : step.inputs)
    if (!known[input]) return std::nullopt;
  for (size_t i = 0; i < kPoints.size(); ++i) {
    std::array<double, 3> arguments{};
    for (size_t j = 0; j < step.inputs.size(); ++j) arguments[j] = (*known[step.inputs[j]])[i];
    const auto value = evaluate(step.op, arguments);
    if (!value) return std::nullopt;
    values[i] = *value;
  }
  return values;
}

class Finder {
 public:
  Finder(const FusedKernel& kernel, uint32_t product, int64_t columns)
      : kernel_(kernel), columns_(columns), forms_(kernel.steps.size()) {
    forms_[product] = Epilogue{};
  }

  std::vector<std::optional<Epilogue>> run() {
    for (uint32_t i = 0; i < kernel_.steps.size(); ++i) {
      if (!forms_[i]) forms_[i] = linear(kernel_.steps[i]);
      if (forms_[i] && forms_[i]->activation == Activation::none) find_activations(i);
    }
    return std::move(forms_);
  }

 private:
  // Scales and sums of an earlier form.
  std::optional<Epilogue> linear(const FusedStep& step) const {
    if (step.kind != FusedStep::Kind::compute || !is_floating(step.dtype)) return std::nullopt;
    if (step.op == Op::cast) return forms_[step.inputs[0]];
    if (step.op != Op::add && step.op != Op::multiply && step.op != Op::divide) return std::nullopt;
    for (int side = 0; side < (step.op == Op::divide ? 1 : 2); ++side) {
      const auto& form = forms_[step.inputs[side]];
      const bool is_with_itself = forms_[step.inputs[1 - side]].has_value();
      if (!form || form->activation != Activation::none || is_with_itself) continue;
      const FusedStep& other = kernel_.steps[step.inputs[1 - side]];
      if (const auto more = step.op == Op::add ? added(*form, other)
                                               : scaled(*form, other, step.op == Op::divide))
        return more;
    }
    return std::nullopt;
  }

  static std::optional<Epilogue> scaled(Epilogue form, const FusedStep& by, bool divides) {
    if (by.kind != FusedStep::Kind::constant || form.addend || form.bias) return std::nullopt;
    form.scale = divides ? form.scale / as_stored(by) : form.scale * as_stored(by);
    return form;
  }

  std::optional<Epilogue> added(Epilogue form, const FusedStep& other) const {
    if (other.kind != FusedStep::Kind::load) return std::nullopt;
    const FusedOperand& operand = kernel_.inputs[other.operand];
    if (operand.is_position) return std::nullopt;
    const EpilogueOperand found{operand.storage, operand.offset};
    const int64_t all = element_count(kernel_.domain);
    if (!form.addend && lies_in_order(kernel_.domain, operand, all)) {
      form.addend = found;
    } else if (!form.bias && lies_in_order(kernel_.domain, operand, columns_)) {
      form.bias = found;
    } else {
      return std::nullopt;
    }
    return form;
  }

  // Later steps that are an activation of this one.
  void find_activations(uint32_t base) {
    std::vector<std::optional<Values>> values(kernel_.steps.size());
    values[base] = kPoints;
    for (uint32_t i = 0; i < kernel_.steps.size(); ++i) {
      if (i == base || (i < base && kernel_.steps[i].kind != FusedStep::Kind::constant)) continue;
      values[i] = values_of(kernel_.steps[i], values);
      if (i < base || !values[i] || forms_[i]) continue;
      const Activation found = activation_of(*values[i]);
      if (found == Activation::none) continue;
      forms_[i] = forms_[base];
      forms_[i]->activation = found;
    }
  }

  const FusedKernel& kernel_;
  int64_t columns_;
  std::vector<std::optional<Epilogue>> forms_;
};

}  // namespace

bool lies_in_order(const Shape& domain, const FusedOperand& operand, int64_t period) {
  int64_t step = 1;
  for (int axis = domain.rank() - 1; axis >= 0; --axis) {
    if (domain[axis] == 1) continue;
    if (operand.strides[axis] != (step < period ? step : 0)) return false;
    if (step < period) step *= domain[axis];
  }
  return step == period && !operand.is_position;
}

std::string to_string(const Epilogue& epilogue) {
  std::string text;
  const auto add = [&](bool has, const char* what) {
    if (has) text += (text.empty() ? "" : ", ") + std::string(what);
  };
  add(epilogue.scale != 1, "scaled");
  add(epilogue.addend.has_value(), "+ tensor");
  add(epilogue.bias.has_value(), "+ bias");
  add(epilogue.activation == Activation::relu, "relu");
  add(epilogue.activation == Activation::gelu, "gelu");
  return text;
}

std::vector<std::optional<Epilogue>> epilogue_forms(const FusedKernel& kernel, uint32_t product,
                                                    int64_t columns) {
  return Finder(kernel, product, columns).run();
}

}  // namespace ridgeline
