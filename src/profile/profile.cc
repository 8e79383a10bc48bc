#include "profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/enum_names.h"
#include "base/sort_by.h"
#include "graph/scope.h"

namespace ridgeline {
namespace {

constexpr EnumNames<FoldBy, FoldBy::node> kFoldNames("phase", "category", "scope", "layer_scope",
                                                     "kernel", "node");

std::string key_of(const Profile& profile, const Invocation& each, FoldBy by) {
  switch (by) {
    case FoldBy::phase:
      return std::string(profile.phase(each));
    case FoldBy::category:
      return std::string(name(each.category));
    case FoldBy::scope:
      return scope_of_any_layer(profile.scope(each));
    case FoldBy::layer_scope:
      return std::string(profile.scope(each));
    case FoldBy::kernel:
      return each.work.name;
    case FoldBy::node:
      return each.kernel == kNobody ? each.work.name : profile.kernels[each.kernel].node_name;
  }
  return {};
}

// A row of a fold under construction.
struct Growing {
  Fold row;
  std::set<std::string_view> names;
  double imbalance_ns = 0;
  bool all_predicted = true;
};

// Keeps `common` only while all values are equal.
void agree(std::string& common, std::string_view each, bool is_first) {
  if (is_first)
    common = each;
  else if (common != each)
    common.clear();
}

struct Interval {
  int64_t begin_ns, end_ns;
};

int64_t union_of(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin_ns);
  int64_t total = 0, covered_to = std::numeric_limits<int64_t>::min();
  for (const Interval& each : intervals) {
    const int64_t begin = std::max(each.begin_ns, covered_to);
    if (each.end_ns > begin) total += each.end_ns - begin;
    covered_to = std::max(covered_to, each.end_ns);
  }
  return total;
}

int64_t sum_ns(const Profile& profile, const KeepInvocation& keep) {
  int64_t total = 0;
  for (const Invocation& each : profile.invocations)
    if (keep(each)) total += each.duration_ns();
  return total;
}

}  // namespace

std::string_view name(FoldBy by) {
  return kFoldNames[by];
}

std::vector<Fold> fold(const Profile& profile, FoldBy by, const KeepInvocation& keep) {
  std::map<std::string, Growing> rows;
  double all_ns = 0;
  for (const Invocation& each : profile.invocations) {
    if (keep && !keep(each)) continue;
    Growing& growing = rows[key_of(profile, each, by)];
    Fold& row = growing.row;
    const bool is_first = row.invocations++ == 0;
    agree(row.category, name(each.category), is_first);
    agree(row.phase, profile.phase(each), is_first);
    agree(row.scope, scope_of_any_layer(profile.scope(each)), is_first);
    growing.names.insert(each.work.name);
    row.total_ns += each.duration_ns();
    all_ns += static_cast<double>(each.duration_ns());
    growing.imbalance_ns += each.imbalance * static_cast<double>(each.duration_ns());
    if (each.kernel == kNobody) growing.all_predicted = false;
    if (each.kernel == kNobody || !each.leads) continue;
    const ProfiledKernel& kernel = profile.kernels[each.kernel];
    row.cost += kernel.cost;
    if (kernel.predicted_us)
      row.predicted_us = row.predicted_us.value_or(0) + *kernel.predicted_us;
    else
      growing.all_predicted = false;
  }
  std::vector<Fold> result;
  for (auto& [key, growing] : rows) {
    Fold& row = growing.row;
    const auto total = static_cast<double>(row.total_ns);
    row.key = key;
    row.kernels = growing.names.size();
    row.share = all_ns > 0 ? total / all_ns : 0;
    row.imbalance = total > 0 ? growing.imbalance_ns / total : 0;
    if (!growing.all_predicted) row.predicted_us.reset();
    result.push_back(std::move(row));
  }
  sort_by_falling(result, &Fold::total_ns);
  return result;
}

DeviceTime device_time(const Profile& profile) {
  DeviceTime time;
  std::vector<std::vector<const Invocation*>> by_step(profile.steps.size());
  for (const Invocation& each : profile.invocations)
    if (each.step < by_step.size()) by_step[each.step].push_back(&each);
  for (const std::vector<const Invocation*>& works : by_step) {
    if (works.empty()) continue;
    std::vector<Interval> intervals;
    int64_t end_ns = works.front()->work.begin_ns, sum = 0;
    for (const Invocation* each : works) {
      intervals.push_back({each->work.begin_ns, each->work.end_ns});
      sum += each->duration_ns();
      const int64_t gap = each->work.begin_ns - end_ns;
      if (gap > 0) {
        // Work that was launched after the previous work had ended made the device wait.
        const int64_t started = each->call == kNobody ? end_ns : profile.calls[each->call].end_ns;
        const int64_t late = std::clamp<int64_t>(started - end_ns, 0, gap);
        time.waited_for_host_ns += late;
        time.own_gaps_ns += gap - late;
      }
      end_ns = std::max(end_ns, each->work.end_ns);
    }
    const int64_t busy = union_of(std::move(intervals));
    time.span_ns += end_ns - works.front()->work.begin_ns;
    time.busy_ns += busy;
    time.overlap_ns += sum - busy;
  }
  return time;
}

std::optional<LaunchVerdict> launch_verdict(const Profile& profile) {
  constexpr double kLaunchBound = 0.1;  // of the span
  if (!profile.has_queue || profile.invocations.empty()) return std::nullopt;
  const DeviceTime time = device_time(profile);
  if (time.span_ns == 0) return std::nullopt;
  const auto percent = [&](int64_t part) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(time.span_ns);
  };
  LaunchVerdict verdict;
  verdict.waited_share = percent(time.waited_for_host_ns) / 100;
  verdict.launch_bound = verdict.waited_share >= kLaunchBound;
  verdict.sentence = fmt::format(
      "{}: of a step's time on the device {:.1f} % ran kernels, {:.1f} % waited for the "
      "host to start the next one and {:.1f} % went between kernels that were queued",
      verdict.launch_bound ? "launch-bound" : "not launch-bound", percent(time.busy_ns),
      percent(time.waited_for_host_ns), percent(time.own_gaps_ns));
  return verdict;
}

std::optional<MatmulShare> matmul_share(const Profile& profile) {
  const auto is_forward = [&](const Invocation& each) { return profile.phase(each) == "forward"; };
  const auto is_matmul = [](const Invocation& each) { return each.category == Category::gemm; };
  const auto all = static_cast<double>(sum_ns(profile, [](const Invocation&) { return true; }));
  const auto forward = static_cast<double>(sum_ns(profile, is_forward));
  if (forward <= 0) return std::nullopt;
  const auto both = [&](const Invocation& each) { return is_forward(each) && is_matmul(each); };
  return MatmulShare{.forward = static_cast<double>(sum_ns(profile, both)) / forward,
                     .step = static_cast<double>(sum_ns(profile, is_matmul)) / all};
}

std::optional<SoftmaxAgainstMatmul> softmax_against_matmul(const Profile& profile) {
  SoftmaxAgainstMatmul result;
  const double steps = std::max<double>(1, static_cast<double>(profile.steps.size()));
  for (const Invocation& each : profile.invocations) {
    if (profile.phase(each) != "forward") continue;
    const std::string_view scope = profile.scope(each), leaf = scope_leaf(scope);
    if (scope.find("attention") == std::string_view::npos) continue;
    const double us = 1e-3 * static_cast<double>(each.duration_ns()) / steps;
    const double flops = each.leads ? profile.kernels[each.kernel].cost.flops / steps : 0;
    if (each.category == Category::softmax) {
      result.softmax_us += us;
      result.softmax_flops += flops;
    } else if (each.category == Category::gemm && (leaf == "scores" || leaf == "values")) {
      result.matmul_us += us;
      result.matmul_flops += flops;
    }
  }
  if (result.softmax_us <= 0 || result.matmul_us <= 0) return std::nullopt;
  return result;
}

}  // namespace ridgeline
