// What a run of an executable did, kernel by kernel, and what that adds up to.
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

// One piece of work of the device.
struct Invocation {
  DeviceWork work;
  uint32_t kernel = kNobody;  // in Profile::kernels; nobody: it could not be mapped
  uint32_t step = kNobody;    // in Profile::steps
  uint32_t call = kNobody;    // in Profile::calls: what started it
  Category category = Category::other;
  // The longest of a kernel's pieces in a step. A library call may be several kernels of the
  // device; its cost counts once.
  bool leads = false;
  double imbalance = 0;  // of the CPU's threads: the busiest one over their mean, less one

  int64_t duration_ns() const { return work.end_ns - work.begin_ns; }
};

// What the host did: it started a kernel, or all that was recorded.
struct HostCall {
  uint32_t kernel = kNobody;  // nobody: the start of a launch graph
  uint32_t step = kNobody;
  int64_t begin_ns = 0, end_ns = 0;
};

struct ProfileStep {
  int number = 0;  // of the schedule, from 0 on
  int64_t begin_ns = 0, end_ns = 0;
};

struct Profile {
  std::string device;      // "cuda: NVIDIA H200, ...", for people
  std::string source;      // of times: "CUPTI 13.0", "CUDA events", "the host's clock"
  std::string why_not;     // where it is not the best source: why, in a sentence
  bool has_queue = false;  // whether the device can wait for the host
  bool has_nodes = true;   // kernels belong to nodes of a graph: their scopes and costs are known
  std::vector<ProfiledKernel> kernels;
  std::vector<Invocation> invocations;  // in the order of their beginning
  std::vector<HostCall> calls;
  std::vector<LaunchCall> launches;              // of the driver, where the source tells them
  std::vector<std::vector<ThreadSpan>> threads;  // of the CPU's pool, by thread
  std::vector<ProfileStep> steps;
  std::optional<CpuCounts> cpu;  // of the CPU's threads, over all steps
  size_t unmapped = 0;           // invocations of kernels that belong to no node
  size_t captured = 0;   // pieces of work that launch graphs were recorded with; 0: none was
  size_t dropped = 0;    // records that were lost
  size_t not_timed = 0;  // records without times

  double traced_step_ms = 0;      // by the host, the median
  double untraced_step_ms = 0;    // the same without tracing; 0: it could not be had
  double untraced_device_ms = 0;  // of one step, all of it queued before it begins; 0: likewise

  // What tracing costs: 0.03 is 3 % of a step.
  std::optional<double> tracing_cost() const;
  std::string_view phase(const Invocation& each) const;
  std::string_view scope(const Invocation& each) const;
};

enum class FoldBy : uint8_t { phase, category, scope, layer_scope, kernel, node };
std::string_view name(FoldBy by);
FoldBy parse_fold_by(std::string_view name);  // throws a usage error that lists them

// The invocations with one key, over all steps of the profile.
struct Fold {
  std::string key;
  std::string category, phase, scope;  // of all of them; empty where they differ
  size_t kernels = 0;                  // of different names
  size_t invocations = 0;
  int64_t total_ns = 0;  // summed: what overlaps counts twice
  double share = 0;      // of the sum over all
  Cost cost;
  std::optional<double> predicted_us = {};  // of all invocations; none if it is not known of one
  double imbalance = 0;                     // mean over time

  double mean_us() const;
  double flops_per_s() const;
  double bytes_per_s() const;
  // What was measured over what was predicted, less one: 0.5 is half as long again.
  std::optional<double> prediction_error() const;
};

using KeepInvocation = std::function<bool(const Invocation&)>;
// Largest total first; phases and categories too. `keep`: which ones; empty: all.
std::vector<Fold> fold(const Profile& profile, FoldBy by, const KeepInvocation& keep = {});

// ---- what the device did with its time

// Of each step the device was busy from its first work on to its last, or waited.
struct DeviceTime {
  int64_t span_ns = 0;             // from the first beginning to the last end, summed over steps
  int64_t busy_ns = 0;             // the union of intervals
  int64_t overlap_ns = 0;          // the sum of intervals less their union
  int64_t waited_for_host_ns = 0;  // nothing ran, and what runs next had not been started yet
  int64_t own_gaps_ns = 0;         // nothing ran, and the next work was already queued

  int64_t waited_ns() const { return span_ns - busy_ns; }
};
DeviceTime device_time(const Profile& profile);
int64_t union_ns(const Profile& profile);  // of all invocations

struct LaunchVerdict {
  bool launch_bound = false;
  double waited_share = 0;  // for the host, of the span
  std::string sentence;
};
// Nothing for a device without a queue.
std::optional<LaunchVerdict> launch_verdict(const Profile& profile);

// ---- the questions of the assignment

struct MatmulShare {
  double forward = 0;  // of the forward phase's time
  double step = 0;     // of all phases' time
};
std::optional<MatmulShare> matmul_share(const Profile& profile);

// Inside of attention, forward: the softmax against the two products around it. Nothing where one
// kernel does both.
struct SoftmaxAgainstMatmul {
  double softmax_us = 0, matmul_us = 0;  // of one step
  double softmax_flops = 0, matmul_flops = 0;
};
std::optional<SoftmaxAgainstMatmul> softmax_against_matmul(const Profile& profile);

}  // namespace ridgeline
