#include "studies/profile/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "base/sort_by.h"
#include "studies/profile/recorded_step.h"

namespace ridgeline {
namespace {

constexpr size_t kLongestName = 160;  // C++ names of library kernels may take kilobytes

class Folds {
 public:
  explicit Folds(const Profile& profile)
      : profile_(profile), steps_(std::max<double>(1, static_cast<double>(profile.steps.size()))) {}

  Json of(FoldBy by) const { return json(fold(profile_, by)); }

  // Folds within each phase, with shares of the whole time.
  Json of_each_phase(FoldBy by) const {
    std::vector<Fold> rows;
    for (const Fold& phase : fold(profile_, FoldBy::phase))
      for (Fold& row : fold(profile_, by, [&](const Invocation& each) {
             return profile_.phase(each) == phase.key;
           })) {
        row.share *= phase.share;
        rows.push_back(std::move(row));
      }
    sort_by_falling(rows, &Fold::total_ns);
    return json(std::move(rows));
  }

 private:
  Json json(std::vector<Fold> rows) const {
    Json list = Json::array();
    const size_t shown = rows.size() <= kMostFolds ? rows.size() : kMostFolds - 1;
    for (size_t i = 0; i < shown; ++i) list.push_back(json(rows[i]));
    if (shown == rows.size()) return list;
    Fold others;
    others.key = kOtherFolds;
    bool all_predicted = true;
    for (size_t i = shown; i < rows.size(); ++i) {
      others.kernels += rows[i].kernels;
      others.invocations += rows[i].invocations;
      others.total_ns += rows[i].total_ns;
      others.share += rows[i].share;
      others.cost += rows[i].cost;
      all_predicted = all_predicted && rows[i].predicted_us;
      others.predicted_us = others.predicted_us.value_or(0) + rows[i].predicted_us.value_or(0);
    }
    if (!all_predicted) others.predicted_us.reset();
    list.push_back(json(others));
    return list;
  }

  Json json(const Fold& row) const {
    const char* nobodys = profile_.has_nodes ? kNoNode : kNoPhase;
    Json json = {{"key", row.key.empty() ? nobodys : printable(row.key, kLongestName)}};
    for (const auto& [name, text] :
         {std::pair("phase", &row.phase), {"category", &row.category}, {"scope", &row.scope}})
      if (!text->empty()) json[std::string_view(name)] = printable(*text, kLongestName);
    json["kernels"] = row.kernels;
    json["invocations"] = static_cast<double>(row.invocations) / steps_;
    json["total_ms"] = 1e-6 * static_cast<double>(row.total_ns) / steps_;
    json["mean_us"] = row.mean_us();
    json["share"] = row.share;
    if (profile_.has_nodes) {
      json["flops"] = row.cost.flops / steps_;
      json["flops_per_s"] = row.flops_per_s();
      json["bytes_per_s"] = row.bytes_per_s();
    }
    if (const auto error = row.prediction_error()) {
      json["predicted_us"] = *row.predicted_us / static_cast<double>(row.invocations);
      json["roof_share"] = 1 / (1 + *error);
      json["prediction_error"] = *error;
    }
    if (row.imbalance > 0) json["imbalance"] = row.imbalance;
    return json;
  }

  const Profile& profile_;
  const double steps_;
};

// Waits are visible only if kernels start as they do without tracing: events between kernels would
// split launch graphs.
bool sees_waiting(const Profile& profile) {
  return profile.has_queue && !profile.launches.empty();
}

Json device_time_json(const Profile& profile) {
  const DeviceTime time = device_time(profile);
  const double steps = std::max<double>(1, static_cast<double>(profile.steps.size()));
  const auto ms = [&](int64_t ns) { return 1e-6 * static_cast<double>(ns) / steps; };
  Json json = {{"span_ms", ms(time.span_ns)},
               {"busy_ms", ms(time.busy_ns)},
               {"overlap_ms", ms(time.overlap_ns)}};
  if (sees_waiting(profile))
    json.update({{"waited_for_host_ms", ms(time.waited_for_host_ns)},
                 {"own_gaps_ms", ms(time.own_gaps_ns)}});
  return json;
}

// Per step; events that could not be counted are listed with the reason.
Json cpu_events_json(const CpuCounts& seen, size_t steps, int64_t elapsed_ns) {
  const double per_step = 1 / std::max<double>(1, static_cast<double>(steps));
  Json json = {{"elapsed_ns", static_cast<double>(elapsed_ns) * per_step},
               {"forced_switches", seen.forced_switches * per_step}};
  Json unsupported = Json::object();
  std::vector<Json> threads;
  for (const CpuCount& count : seen.counts) {
    if (!count.total) {
      unsupported[count.name] = count.why_not;
      continue;
    }
    json[count.name] = *count.total * per_step;
    for (size_t thread = 0; thread < count.by_thread.size(); ++thread) {
      if (thread == threads.size()) threads.push_back(Json::object());
      threads[thread][count.name] = count.by_thread[thread] * per_step;
    }
  }
  if (!threads.empty()) json["threads"] = Json::array();
  for (Json& thread : threads) json["threads"].push_back(std::move(thread));
  if (!unsupported.empty()) json["unsupported"] = std::move(unsupported);
  return json;
}

// How often per step the host starts a kernel or a launch graph.
double starts_per_step(const Profile& profile) {
  const auto in_steps = std::ranges::count_if(
      profile.calls, [](const HostCall& call) { return call.step != kNobody; });
  return static_cast<double>(in_steps) /
         std::max<double>(1, static_cast<double>(profile.steps.size()));
}

}  // namespace

Json profile_metrics(const Profile& profile) {
  if (profile.invocations.empty())
    throw Error(ErrorKind::unsupported, fmt::format("{} reported no kernel of {} steps",
                                                    profile.source, profile.steps.size()));
  const Folds folds(profile);
  Json metrics = {{"source", profile.source}, {"steps", profile.steps.size()}};
  if (!profile.why_not.empty()) metrics["why_not_cupti"] = profile.why_not;
  metrics["traced_step_ms"] = profile.traced_step_ms;
  if (const auto cost = profile.tracing_cost()) {
    metrics["untraced_step_ms"] = profile.untraced_step_ms;
    metrics["tracing_cost"] = *cost;
  }
  if (profile.untraced_device_ms > 0 && sees_waiting(profile))
    metrics["untraced_device_ms"] = profile.untraced_device_ms;
  std::set<std::string_view> names;
  for (const Invocation& each : profile.invocations) names.insert(each.work.name);
  metrics["kernels"] = names.size();
  metrics["starts"] = starts_per_step(profile);
  metrics["unmapped"] = profile.unmapped;
  metrics["captured"] = profile.captured;
  metrics["dropped"] = profile.dropped;
  metrics["not_timed"] = profile.not_timed;
  metrics["device_time"] = device_time_json(profile);
  if (const auto verdict = launch_verdict(profile); verdict && sees_waiting(profile)) {
    metrics["launch_bound"] = verdict->launch_bound;
    metrics["launch_verdict"] = verdict->sentence;
  }
  if (const auto share = matmul_share(profile))
    metrics["matmul_share"] = Json{{"forward", share->forward}, {"step", share->step}};
  if (const auto both = softmax_against_matmul(profile))
    metrics["softmax_against_matmul"] = Json{{"softmax_us", both->softmax_us},
                                             {"matmul_us", both->matmul_us},
                                             {"softmax_flops", both->softmax_flops},
                                             {"matmul_flops", both->matmul_flops}};
  if (profile.cpu && !profile.steps.empty())
    metrics["cpu_events"] =
        cpu_events_json(*profile.cpu, profile.steps.size(),
                        profile.steps.back().end_ns - profile.steps.front().begin_ns);
  metrics["folds"] = Json{{"phase", folds.of(FoldBy::phase)},
                          {"category", folds.of(FoldBy::category)},
                          {"phase_category", folds.of_each_phase(FoldBy::category)},
                          {"kernel", folds.of_each_phase(FoldBy::kernel)}};
  if (profile.has_nodes) metrics["folds"]["scope"] = folds.of_each_phase(FoldBy::scope);
  if (Json step = step_json(profile); !step.is_null()) metrics["step"] = std::move(step);
  return metrics;
}

}  // namespace ridgeline
