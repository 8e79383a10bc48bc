#include "plan/access.h"

namespace ridgeline {
namespace {

Placed broadcast(const Placed& from, const Shape& to) {
  Placed result{to, from.offset, Dims::filled(to.rank(), 0)};
  const int extra = to.rank() - from.shape.rank();
  for (int axis = extra; axis < to.rank(); ++axis)
    if (from.shape[axis - extra] == to[axis]) result.strides[axis] = from.strides[axis - extra];
  return result;
}

}  // namespace

std::optional<Placed> see_through(Placed tensor, const Access& access) {
  for (auto step = access.rbegin(); step != access.rend(); ++step) {
    if (step->broadcasts) {
      tensor = broadcast(tensor, step->shape);
    } else if (step->view != nullptr) {
      const auto seen =
          layout_of_view(*step->view, tensor.shape, {{}, tensor.offset, tensor.strides});
      if (!seen) return std::nullopt;
      tensor = {step->view->outputs[0].shape, seen->offset, seen->strides};
    } else {
      const auto strides = reshape_strides(tensor.shape, tensor.strides, step->shape);
      if (!strides) return std::nullopt;
      tensor = {step->shape, tensor.offset, *strides};
    }
  }
  for (int axis = 0; axis < tensor.shape.rank(); ++axis)
    if (tensor.shape[axis] == 1) tensor.strides[axis] = 0;
  return tensor;
}

std::optional<Access> access_in_domain(const Shape& from, const Shape& domain) {
  if (from == domain) return Access{};
  const int64_t all = element_count(domain);
  const int64_t columns = domain.back();
  const int64_t count = element_count(from);
  const int64_t last = from.rank() > 0 ? from.back() : 1;
  if (count == all && last == columns) return Access{{.shape = domain}};
  if (last != 1 || count != all / columns) return std::nullopt;
  Shape rows = domain;
  rows.back() = 1;
  Access access = {{.broadcasts = true, .shape = domain}};
  if (rows != from) access.push_back({.shape = rows});
  return access;
}

}  // namespace ridgeline
