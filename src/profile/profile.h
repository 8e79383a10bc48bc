// The profile of a run of an executable, kernel by kernel, and its summaries.
//
//   const Profile profile = record_profile(executable, device, tracer, {});   // recorder.h
//   for (const Fold& row : fold(profile, FoldBy::category)) ... row.key, row.total_ns
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "profile/cpu_events.h"
#include "profile/kernels.h"
#include "runtime/activity.h"

namespace ridgeline {

inline constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

// One piece of device work.
struct Invocation {
  DeviceWork work;
  uint32_t kernel = kNobody;  // index in Profile::kernels; kNobody: it could not be mapped
  uint32_t step = kNobody;    // index in Profile::steps
  uint32_t call = kNobody;    // index in Profile::calls: the call that launched it
  Category category = Category::other;
  // Whether it is the longest device kernel of `kernel` in its step. A library call may launch
  // several; its cost counts once.
  bool leads = false;
  double imbalance = 0;  // of the CPU's threads: busy time of the busiest over the mean, less one

  int64_t duration_ns() const { return work.end_ns - work.begin_ns; }
};

// A call of the host that launched a kernel or a launch graph.
struct HostCall {
  uint32_t kernel = kNobody;  // kNobody: a launch graph
  uint32_t step = kNobody;
  int64_t begin_ns = 0, end_ns = 0;
};

struct ProfileStep {
  int number = 0;  // in the schedule, from 0
  int64_t begin_ns = 0, end_ns = 0;
};

struct Profile {
  std::string device;      // for display: "cuda: NVIDIA H200, ..."
  std::string source;      // of times: "CUPTI 13.0", "the host's clock"
  std::string why_not;     // why this is not the best source, in a sentence
  bool has_queue = false;  // whether the device runs asynchronously and can wait for the host
  bool has_nodes = true;   // kernels belong to nodes of a graph, with known scopes and costs
  std::vector<ProfiledKernel> kernels;
  std::vector<Invocation> invocations;  // ordered by start time
  std::vector<HostCall> calls;
  std::vector<LaunchCall> launches;              // driver calls, where the source has them
  std::vector<std::vector<ThreadSpan>> threads;  // of the CPU's pool, by thread
  std::vector<ProfileStep> steps;
  std::optional<CpuCounts> cpu;  // of the CPU's threads, over all steps
  size_t unmapped = 0;           // invocations without a kernel
  size_t captured = 0;           // nodes captured into launch graphs; 0: no launch graph
  size_t dropped = 0;            // records that were lost
  size_t not_timed = 0;          // records without times

  double traced_step_ms = 0;      // median wall time
  double untraced_step_ms = 0;    // median wall time without tracing; 0: not available
  double untraced_device_ms = 0;  // median busy time of a step without tracing; 0: not available

  // The overhead of tracing: 0.03 is 3 % of a step.
  std::optional<double> tracing_cost() const {
    if (untraced_step_ms <= 0) return std::nullopt;
    return traced_step_ms / untraced_step_ms - 1;
  }
  std::string_view phase(const Invocation& each) const {
    return each.kernel == kNobody ? std::string_view() : kernels[each.kernel].phase;
  }
  std::string_view scope(const Invocation& each) const {
    return each.kernel == kNobody ? std::string_view() : kernels[each.kernel].scope;
  }
};

enum class FoldBy : uint8_t { phase, category, scope, layer_scope, kernel, node };
std::string_view name(FoldBy by);

// The sum over all invocations with one key, in all steps of the profile.
struct Fold {
  std::string key;
  std::string category, phase, scope;  // empty where invocations differ
  size_t kernels = 0;                  // number of distinct names
  size_t invocations = 0;
  int64_t total_ns = 0;  // overlapping work counts twice
  double share = 0;      // of the total of all rows
  Cost cost;
  std::optional<double> predicted_us = {};  // of all invocations; empty if one is not known
  double imbalance = 0;                     // weighted by time

  double mean_us() const {
    return invocations == 0 ? 0 : 1e-3 * total() / static_cast<double>(invocations);
  }
  double flops_per_s() const { return total_ns == 0 ? 0 : 1e9 * cost.flops / total(); }
  double bytes_per_s() const { return total_ns == 0 ? 0 : 1e9 * cost.bytes / total(); }
  // Measured over predicted time, less one: 0.5 is 50 % longer.
  std::optional<double> prediction_error() const {
    if (!predicted_us || *predicted_us <= 0) return std::nullopt;
    return 1e-3 * total() / *predicted_us - 1;
  }

 private:
  double total() const { return static_cast<double>(total_ns); }
};

using KeepInvocation = std::function<bool(const Invocation&)>;
// Sorted by total, largest first. `keep` selects invocations; empty: all.
std::vector<Fold> fold(const Profile& profile, FoldBy by, const KeepInvocation& keep = {});

// ---- how the device spent its time

// Summed over steps, each from the beginning of its first work to the end of its last.
struct DeviceTime {
  int64_t span_ns = 0;
  int64_t busy_ns = 0;             // union of the intervals of work
  int64_t overlap_ns = 0;          // their sum less their union
  int64_t waited_for_host_ns = 0;  // idle, with the next work not launched yet
  int64_t own_gaps_ns = 0;         // idle, with the next work already queued
};
DeviceTime device_time(const Profile& profile);

struct LaunchVerdict {
  bool launch_bound = false;
  double waited_share = 0;  // fraction of the span spent waiting for the host
  std::string sentence;
};
// Empty for a device without a queue.
std::optional<LaunchVerdict> launch_verdict(const Profile& profile);

// ---- the questions of the assignment

struct MatmulShare {
  double forward = 0;  // fraction of the forward phase
  double step = 0;     // fraction of all phases
};
std::optional<MatmulShare> matmul_share(const Profile& profile);

// The softmax and the two products of attention in the forward phase; empty where one kernel
// computes both.
struct SoftmaxAgainstMatmul {
  double softmax_us = 0, matmul_us = 0;  // per step
  double softmax_flops = 0, matmul_flops = 0;
};
std::optional<SoftmaxAgainstMatmul> softmax_against_matmul(const Profile& profile);

}  // namespace ridgeline
