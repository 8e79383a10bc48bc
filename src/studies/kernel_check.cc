#include "studies/kernel_check.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <unordered_map>

#include "base/larger.h"
#include "base/random.h"
#include "kernels/host_values.h"
#include "kernels/reference/definitions.h"
#include "kernels/reference/fused_elements.h"
#include "studies/host_tensors.h"

namespace ridgeline {
namespace {

constexpr int64_t kWholeWork = 1 << 19;    // most elements read to compare a result whole
constexpr int64_t kSampledWork = 1 << 16;  // elements read to compare a sample
constexpr int64_t kLongWork = 1 << 22;     // read for one element: only both ends are compared
constexpr int64_t kLeastPlaces = 6, kMostPlaces = 2048;
constexpr int64_t kFetchedRuns = 32;  // runs of adjacent elements, from device memory
constexpr size_t kFewResults = 4;     // kernels with more compare fewer elements of each
constexpr size_t kNamed = 8;          // wrong results that are reported by name

// Reads elements of a tensor on any device, a page per download.
class ElementReader {
 public:
  ElementReader(const Device& device, bool is_host, const TensorView& view)
      : device_(device),
        view_(view),
        is_host_(is_host || view.host_scalar),
        extent_(extent_of(view.shape, view.strides)) {}

  double operator()(int64_t offset) const {
    if (is_host_) return load_one(view_.dtype, view_.data, offset);
    const int64_t number = offset / kPage;
    std::vector<char>& page = pages_[number];
    if (page.empty()) {
      const int64_t count = std::min(kPage, extent_ - number * kPage);
      const int size = info(view_.dtype).size;
      page.resize(static_cast<size_t>(count * size));
      device_.download(
          {static_cast<char*>(view_.data) + number * kPage * size, view_.dtype, {count}, {1}},
          page.data());
    }
    return load_one(view_.dtype, page.data(), offset - number * kPage);
  }

 private:
  static constexpr int64_t kPage = 1 << 14;  // elements

  const Device& device_;
  TensorView view_;
  bool is_host_;
  int64_t extent_;
  mutable std::unordered_map<int64_t, std::vector<char>> pages_;
};

ElementOperand operand_of(const Device& device, bool is_host, const TensorView& view) {
  const auto reader = std::make_shared<ElementReader>(device, is_host, view);
  return {view.shape, view.dtype, [reader, strides = view.strides](const Dims& at) {
            return (*reader)(offset_of(at, strides));
          }};
}

// The part of an operand's storage that a kernel accesses, as a tensor with one axis.
TensorView storage_of(void* address, const FusedOperand& operand, const Shape& domain) {
  return {address, operand.dtype, {operand.offset + extent_of(domain, operand.strides)}, {1}};
}

// Rounding to nearest in 16 bits uses up half an epsilon. A quarter more keeps correct results off
// the limit and still detects truncation.
Bounded with_margin(Bounded expected, DType dtype) {
  if (is_16_bit(dtype)) expected.error += info(dtype).epsilon / 4 * std::abs(expected.value);
  return expected;
}

// The name of the graph's output, if the value is one.
std::string name_of(const Graph& graph, Value value) {
  for (const Output& output : graph.outputs())
    if (output.value == value) return output.name;
  return graph.name(value);
}

}  // namespace

KernelChecker::KernelChecker(const Device& device, uint64_t seed)
    : device_(device), is_host_(!device.has_own_memory()), state_(seed) {}

KernelChecker::~KernelChecker() = default;

// The elements to compare: all, or the first, the last, one at the end of each axis and random
// ones.
std::vector<Dims> KernelChecker::places(const Shape& shape, const ElementWork& work,
                                        size_t results) {
  const int64_t all = element_count(shape);
  std::vector<Dims> chosen;
  if (all <= kLeastPlaces || all * work.amortised <= kWholeWork) {
    for (int64_t flat = 0; flat < all; ++flat)
      chosen.push_back(reference::coordinates(shape, flat));
    return chosen;
  }
  const auto shared = static_cast<int64_t>(std::max<size_t>(1, results / kFewResults));
  const int64_t wanted =
      std::clamp(kSampledWork / work.single / shared, kLeastPlaces, std::min(all, kMostPlaces));
  NormalRandom random(state_++, "places");
  const auto drawn = [&] {
    Dims at = Dims::filled(shape.rank(), 0);
    for (int axis = 0; axis < shape.rank(); ++axis)
      at[axis] = static_cast<int64_t>(random.next_bits() % static_cast<uint64_t>(shape[axis]));
    return at;
  };
  chosen.push_back(Dims::filled(shape.rank(), 0));
  chosen.push_back(reference::coordinates(shape, all - 1));
  for (int axis = 0; axis < shape.rank(); ++axis) {
    chosen.push_back(drawn());
    chosen.back()[axis] = shape[axis] - 1;
  }
  if (work.single > kLongWork) {
    chosen.resize(2);
    return chosen;
  }
  // A download costs as much as a thousand elements, so it fetches a run of adjacent elements.
  const int64_t run = is_host_ ? 1 : std::max<int64_t>(1, wanted / kFetchedRuns);
  const int64_t width = shape.back();
  for (int64_t runs = 0; static_cast<int64_t>(chosen.size()) < wanted; ++runs) {
    Dims at = drawn();
    // Every fourth run ends its row, where tiles and vectors are partial.
    if (runs % 4 == 0) at.back() = std::max<int64_t>(0, width - run);
    for (const int64_t end = std::min(width, at.back() + run); at.back() < end; ++at.back())
      chosen.push_back(at);
  }
  return chosen;
}

void KernelChecker::expect_node(const KernelRun& run) {
  const Node& node = run.updated != nullptr ? *run.updated : run.graph.nodes()[run.node];
  std::vector<ElementOperand> operands;
  for (const TensorView& input : run.inputs)
    operands.push_back(operand_of(device_, is_host_, input));
  const ElementCall call{node, operands, device_.facts().is_gpu()};
  for (size_t output = 0; output < run.outputs.size(); ++output) {
    const TensorView& view = run.outputs[output];
    targets_.push_back({view, name_of(run.graph, {run.node, static_cast<uint32_t>(output)})});
    for (const Dims& at : places(view.shape, element_work(call, output), run.outputs.size()))
      expected_.push_back({output, offset_of(at, view.strides),
                           element(call, {.output = output, .at = at, .dtype = view.dtype})});
  }
}

void KernelChecker::expect_product(const KernelRun& run) {
  const Product& product = *run.product;
  Node node;
  node.op = Op::matmul;
  node.outputs = {{DType::f32, product.out.shape}};
  const auto read = [&](const TensorView& view) { return operand_of(device_, is_host_, view); };
  const std::vector<ElementOperand> operands = {read(product.a), read(product.b)};
  const ElementOperand addend = product.addend ? read(*product.addend) : ElementOperand{};
  const ElementOperand bias = product.bias ? read(*product.bias) : ElementOperand{};
  const ElementCall call{node, operands, device_.facts().is_gpu()};
  targets_.push_back({product.out, name_of(run.graph, {run.node, 0})});
  for (const Dims& at : places(product.out.shape, element_work(call, 0))) {
    Bounded x =
        apply(Op::multiply, {element(call, {.output = 0, .at = at}), as_single(product.scale)});
    if (product.addend) x = apply(Op::add, {x, {addend.read(at), 0}});
    if (product.bias) x = apply(Op::add, {x, {bias.read({at.back()}), 0}});
    if (product.activation == Activation::relu) x = apply(Op::maximum, {x, {0, 0}});
    if (product.activation == Activation::gelu) {
      const Bounded cube = apply(Op::multiply, {x, apply(Op::multiply, {x, x})});
      const Bounded inner = apply(Op::add, {x, apply(Op::multiply, {cube, as_single(0.044715)})});
      const Bounded tangent = apply(
          Op::tanh, {apply(Op::multiply, {inner, as_single(std::sqrt(2 / std::acos(-1.0)))})});
      x = apply(Op::multiply,
                {apply(Op::multiply, {x, {0.5, 0}}), apply(Op::add, {tangent, {1, 0}})});
    }
    expected_.push_back({0, offset_of(at, product.out.strides), stored(x, product.out.dtype)});
  }
}

void KernelChecker::expect_fused(const KernelRun& run) {
  const FusedKernel& kernel = *run.fused;
  std::vector<ElementReader> inputs;
  for (size_t i = 0; i < kernel.inputs.size(); ++i)
    inputs.emplace_back(device_, is_host_,
                        storage_of(run.input_addresses[i], kernel.inputs[i], kernel.domain));
  if (const auto& product = kernel.product) {
    const auto add = [&](void* address, int64_t last) {
      inputs.emplace_back(device_, is_host_, TensorView{address, product->dtype, {last + 1}, {1}});
    };
    add(run.input_addresses[inputs.size()],
        product->left_offset(product->rows - 1, product->depth - 1));
    add(run.input_addresses[inputs.size()],
        product->right_offset(product->depth - 1, product->columns - 1));
  }
  FusedElements elements(kernel,
                         [&](size_t input, int64_t offset) { return inputs[input](offset); });
  const bool folds_columns = kernel.kind == FusedKind::column;
  for (size_t result = 0; result < kernel.results.size(); ++result) {
    const FusedOperand& to = kernel.results[result].to;
    Shape domain = kernel.domain;
    if (folds_columns) {
      domain = Dims::filled(domain.rank(), 1);
      domain.back() = kernel.columns();
    } else if (to.strides.back() == 0) {
      domain.back() = 1;  // one element per row
    }
    const int64_t extent = folds_columns ? to.offset + kernel.columns()
                                         : storage_of(nullptr, to, kernel.domain).shape[0];
    targets_.push_back({{run.output_addresses[result], to.dtype, {extent}, {1}},
                        name_of(run.graph, kernel.steps[kernel.results[result].step].value)});
    const ElementWork work{.amortised = elements.work() + elements.work_of_fold() / domain.back(),
                           .single = elements.work() + elements.work_of_fold()};
    for (const Dims& at : places(domain, work))
      expected_.push_back({result, elements.offset(result, at), elements.at(result, at)});
  }
}

void KernelChecker::before(const KernelRun& run) {
  targets_.clear();
  expected_.clear();
  if (run.fused != nullptr) return expect_fused(run);
  if (run.product != nullptr) return expect_product(run);
  expect_node(run);
}

void KernelChecker::after(const KernelRun& run) {
  std::vector<ElementReader> results;
  for (const Target& target : targets_) results.emplace_back(device_, is_host_, target.memory);
  std::vector<TensorError> worst(targets_.size());
  std::vector<double> shares(targets_.size(), 0);
  for (const Expected& each : expected_) {
    const double got = results[each.target](each.offset);
    const Bounded allowed = with_margin(each.value, targets_[each.target].memory.dtype);
    const double share = error_share(got, allowed);
    if (share <= shares[each.target] || std::isnan(shares[each.target])) continue;
    shares[each.target] = share;
    worst[each.target] = {targets_[each.target].name, std::abs(got - allowed.value), allowed.error};
  }
  const bool updates = run.fused == nullptr && is_update(run.graph.nodes()[run.node].op);
  has_updates_ = has_updates_ || updates;
  for (size_t i = 0; i < shares.size(); ++i) {
    worst_ = larger(worst_, shares[i]);
    if (updates) worst_update_ = larger(worst_update_, shares[i]);
    if (!(shares[i] <= 1) && wrong_.size() < kNamed) wrong_.push_back(worst[i]);
  }
}

void KernelChecker::report(const std::string& prefix, Verification& verification) const {
  verification.checked = true;
  for (const TensorError& wrong : wrong_)
    verification.tensors.push_back({prefix + wrong.name, wrong.max_error, wrong.tolerance});
  verification.tensors.push_back({prefix + "kernels", worst_, 1});
  if (has_updates_) verification.tensors.push_back({prefix + "optimizer", worst_update_, 1});
}

}  // namespace ridgeline
