// Whole replicas: gradients are summed over ranks, each by itself, all at once or in buckets.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "passes/distribute_parts.h"
#include "passes/rewrite.h"

namespace ridgeline {
namespace {

class DataParallel {
 public:
  DataParallel(const Graph& graph, const Distribution& how)
      : graph_(graph), how_(how), update_(find_update(graph)) {
    std::vector<const UpdatedParameter*> ready;
    for (const UpdatedParameter& each : update_.parameters)
      if (!each.is_zero) ready.push_back(&each);
    std::stable_sort(ready.begin(), ready.end(), [](const auto* a, const auto* b) {
      return a->gradient.node < b->gradient.node;
    });
    cut(ready);
  }

  std::vector<Value> replace(const Site& site) {
    const auto due = due_.equal_range(site.number);
    const bool reads_sums = site.number >= update_.first_node;
    if (due.first == due.second && !reads_sums) return {};
    const bool overlaps = info(how_.strategy).overlaps;
    if (!overlaps) reduce(site, due, {});
    if (site.number == update_.node) return update(site);
    const std::vector<Value> results = copy(site, reads_sums);
    if (overlaps) reduce(site, due, results);
    return results;
  }

 private:
  using Bucket = std::vector<const UpdatedParameter*>;
  using Due = std::multimap<uint32_t, size_t>::const_iterator;

  // Buckets, and the node at which each is reduced: behind it, or before it without overlap.
  void cut(const std::vector<const UpdatedParameter*>& ready) {
    const ParallelStrategyInfo& strategy = info(how_.strategy);
    double asked = 0;  // each by itself
    if (how_.strategy == ParallelStrategy::flat) asked = HUGE_VAL;
    if (how_.strategy == ParallelStrategy::bucketed) asked = static_cast<double>(how_.bucket.count);
    double bytes = 0;
    for (const UpdatedParameter* each : ready) {
      const bool is_shared =
          !buckets_.empty() && buckets_.back().back()->gradient == each->gradient;
      if (buckets_.empty() || (bytes >= bucket_cap(buckets_.size() - 1, asked) && !is_shared)) {
        buckets_.emplace_back();
        bytes = 0;
      }
      buckets_.back().push_back(each);
      bytes += static_cast<double>(byte_size(graph_.type(each->gradient)).count);
    }
    for (size_t i = 0; i < buckets_.size(); ++i)
      due_.emplace(strategy.overlaps ? buckets_[i].back()->gradient.node : first_computed(), i);
  }

  // The first node of the update's stage that is more than an input.
  uint32_t first_computed() const {
    const std::vector<bool> live = live_nodes(graph_);
    uint32_t number = update_.first_node;
    while (!live[number] || graph_.nodes()[number].op == Op::input) ++number;
    return number;
  }

  void reduce(const Site& site, std::pair<Due, Due> due, const std::vector<Value>& results) {
    for (; due.first != due.second; ++due.first) {
      const size_t number = due.first->second;
      std::vector<Tensor> flats;
      std::vector<Value> gradients;  // each once
      for (const UpdatedParameter* each : buckets_[number]) {
        if (std::find(gradients.begin(), gradients.end(), each->gradient) != gradients.end())
          continue;
        gradients.push_back(each->gradient);
        const Value now = each->gradient.node == site.number && !results.empty()
                              ? results[each->gradient.output]
                              : site.now(each->gradient).value();
        flats.push_back(reshape(Tensor(site.target, now), {each->elements}));
      }
      const std::string purpose =
          buckets_[number].size() == 1 && how_.strategy != ParallelStrategy::bucketed
              ? first_parameter(graph_, buckets_[number][0]->parameter)
              : fmt::format("bucket {} of {}", number, buckets_.size());
      const bool is_in_memory = flats.size() == 1 && buckets_[number][0]->is_in_memory;
      const Tensor whole = is_in_memory ? flats[0] : concat(flats, 0);
      const Tensor sum = all_reduce(whole, {how_.ranks, purpose});
      site.target.set_name(sum.value(), "sum of " + purpose);
      site.target.set_scope(sum.value(), kCommunicationScope);
      int64_t begin = 0;
      for (size_t i = 0; i < flats.size(); ++i) {
        const int64_t end = begin + flats[i].shape()[0];
        sums_[graph_.index(gradients[i])] =
            flats.size() == 1 ? sum.value() : slice(sum, 0, begin, end).value();
        begin = end;
      }
    }
  }

  // The sum in place of a gradient, in the gradient's shape.
  Tensor summed(const Site& site, Value old, Value now) const {
    const auto found = sums_.find(graph_.index(old));
    return found == sums_.end()
               ? Tensor(site.target, now)
               : reshape(Tensor(site.target, found->second), graph_.type(old).shape);
  }

  std::vector<Value> copy(const Site& site, bool reads_sums) const {
    std::vector<Value> inputs(site.inputs.begin(), site.inputs.end());
    if (reads_sums && site.node.op == Op::reshape)
      if (const auto found = sums_.find(graph_.index(site.node.inputs[0])); found != sums_.end())
        return {reshape(Tensor(site.target, found->second), site.node.outputs[0].shape).value()};
    for (size_t i = 0; reads_sums && i < inputs.size(); ++i)
      inputs[i] = summed(site, site.node.inputs[i], inputs[i]).value();
    return results_of(site, std::move(inputs));
  }

  // Several updates, in the order in which sums are done, where sums are made beside other work.
  std::vector<Value> update(const Site& site) const {
    const bool overlaps = info(how_.strategy).overlaps;
    const size_t count = update_.parameters.size();
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    const auto ready = [&](uint32_t i) {
      const UpdatedParameter& each = update_.parameters[i];
      return each.is_zero ? 0 : each.gradient.node;
    };
    if (overlaps)
      std::stable_sort(order.begin(), order.end(),
                       [&](uint32_t a, uint32_t b) { return ready(a) < ready(b); });
    std::vector<std::vector<uint32_t>> batches(1);
    int64_t elements = 0;
    for (uint32_t i : order) {
      if (overlaps && elements >= kElementsOfUpdate) {
        batches.emplace_back();
        elements = 0;
      }
      batches.back().push_back(i);
      elements += update_.parameters[i].elements;
    }
    std::vector<Value> results(site.node.outputs.size());
    for (const std::vector<uint32_t>& batch : batches) {
      std::vector<AdamWTensors> tensors;
      for (uint32_t i : batch) {
        const UpdatedParameter& each = update_.parameters[i];
        const Tensor sum = summed(site, each.gradient, site.now(each.flat).value());
        tensors.push_back({.parameter = site.now(each.parameter),
                           .gradient = reshape(sum, {each.elements}),
                           .first_moment = site.now(each.first_moment),
                           .second_moment = site.now(each.second_moment)});
      }
      const std::vector<AdamWTensors> updated = updated_tensors(site, tensors);
      for (size_t k = 0; k < batch.size(); ++k) {
        results[batch[k]] = updated[k].parameter.value();
        results[count + batch[k]] = updated[k].first_moment.value();
        results[2 * count + batch[k]] = updated[k].second_moment.value();
      }
    }
    return results;
  }

  const Graph& graph_;
  const Distribution& how_;
  FoundUpdate update_;
  std::vector<Bucket> buckets_;
  std::multimap<uint32_t, size_t> due_;  // by node: buckets
  std::map<uint32_t, Value> sums_;       // by index of a gradient: flat, in the target
};

}  // namespace

Graph data_parallel(const Graph& graph, const Distribution& how) {
  DataParallel pass(graph, how);
  return rewrite(graph, [&](const Site& site) { return pass.replace(site); });
}

}  // namespace ridgeline
