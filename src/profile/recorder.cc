#include "profile/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/at_end.h"
#include "base/clock.h"
#include "measure/rank_interval.h"

namespace ridgeline {
namespace {

int64_t to_ns(double ms) {
  return static_cast<int64_t>(1e6 * ms);
}

constexpr int kTries = 3;

// Observes kernels as they are launched or captured, and marks each with its index in calls().
class CallLog : public KernelObserver {
 public:
  CallLog(const std::vector<ProfiledKernel>& kernels, Device& device, ActivityTracer* tracer)
      : device_(device), tracer_(tracer), places_events_(!tracer && device.has_queue()) {
    for (uint32_t i = 0; i < kernels.size(); ++i) by_number_[kernels[i].number] = i;
  }

  int64_t now_ns() const { return tracer_ ? tracer_->now_ns() : monotonic_ns(); }
  bool places_events() const { return places_events_; }
  const std::vector<HostCall>& calls() const { return calls_; }

  // Assigns later calls to this step; kNobody: a step that is not kept.
  void set_step(uint32_t step) { step_ = step; }

  void before(const KernelRun& run) override { begin(by_number_.at(run.number)); }
  void after(const KernelRun&) override { end(); }
  bool takes_recordings() const override { return tracer_ != nullptr; }
  void begin_recording() override { is_recording_ = true; }
  void end_recording() override { is_recording_ = false; }
  void before_start() override { begin(kNobody); }
  void after_start() override { end(); }

 private:
  void begin(uint32_t kernel) {
    const uint32_t step = is_recording_ ? kNobody : step_;
    if (places_events_ && step != kNobody) device_.mark();
    calls_.push_back({.kernel = kernel, .step = step, .begin_ns = now_ns()});
    if (tracer_) tracer_->begin(calls_.size() - 1);
  }

  void end() {
    if (tracer_) tracer_->end();
    calls_.back().end_ns = now_ns();
    if (places_events_ && calls_.back().step != kNobody) device_.mark();
  }

  Device& device_;
  ActivityTracer* tracer_;
  const bool places_events_;
  std::unordered_map<size_t, uint32_t> by_number_;
  std::vector<HostCall> calls_;
  uint32_t step_ = kNobody;
  bool is_recording_ = false;
};

// The host call during which a driver call was made.
uint32_t call_around(const std::vector<HostCall>& calls, const LaunchCall& launch) {
  auto after = std::ranges::upper_bound(calls, launch.begin_ns, {}, &HostCall::begin_ns);
  if (after == calls.begin()) return kNobody;
  --after;
  return launch.begin_ns <= after->end_ns ? static_cast<uint32_t>(after - calls.begin()) : kNobody;
}

// The step at a time; kNobody: before, between or after the steps.
uint32_t step_at(const std::vector<ProfileStep>& steps, int64_t ns) {
  for (uint32_t i = 0; i < steps.size(); ++i)
    if (ns >= steps[i].begin_ns && ns <= steps[i].end_ns) return i;
  return kNobody;
}

// Maps device work to the calls that launched it and to our kernels. Work that none of our calls
// launched is kept without a kernel.
void map_activity(Profile& profile, Activity activity, const std::vector<HostCall>& calls,
                  size_t captured_before) {
  std::unordered_map<uint32_t, const LaunchCall*> launches;
  for (const LaunchCall& launch : activity.calls) launches.emplace(launch.correlation, &launch);
  for (DeviceWork& work : activity.work) {
    Invocation each;
    if (const auto mark = activity.started_under(work); mark && *mark < calls.size())
      each.call = static_cast<uint32_t>(*mark);
    else if (const auto found = launches.find(work.correlation); found != launches.end())
      each.call = call_around(calls, *found->second);
    each.step =
        each.call == kNobody ? step_at(profile.steps, work.begin_ns) : calls[each.call].step;
    if (each.step == kNobody) continue;  // outside of the kept steps
    if (const auto mark = activity.owner(work); mark && *mark < calls.size())
      each.kernel = calls[static_cast<size_t>(*mark)].kernel;
    else if (work.graph_node == 0 && each.call != kNobody)
      each.kernel = calls[each.call].kernel;
    each.work = std::move(work);
    profile.invocations.push_back(std::move(each));
  }
  profile.launches = std::move(activity.calls);
  profile.captured = activity.captured - captured_before;
  profile.dropped = activity.dropped;
  profile.not_timed = activity.not_timed;
}

// Adds one invocation per call, with the times of `work_of`.
void add_calls(Profile& profile, const std::vector<HostCall>& calls,
               const std::function<DeviceWork(const HostCall&)>& work_of) {
  for (uint32_t i = 0; i < calls.size(); ++i) {
    if (calls[i].step == kNobody || calls[i].kernel == kNobody) continue;
    Invocation each{
        .work = work_of(calls[i]), .kernel = calls[i].kernel, .step = calls[i].step, .call = i};
    each.work.name = profile.kernels[each.kernel].label;
    profile.invocations.push_back(std::move(each));
  }
}

void find_categories(Profile& profile) {
  // A library call may launch several pieces of work: its cost belongs to the longest kernel, not
  // to a memset before it.
  std::vector<std::vector<Invocation*>> leaders(profile.steps.size(),
                                                std::vector<Invocation*>(profile.kernels.size()));
  const auto rank = [](const Invocation& each) {
    return std::pair(each.work.kind == DeviceWork::Kind::kernel, each.duration_ns());
  };
  for (Invocation& each : profile.invocations) {
    if (each.kernel == kNobody) {
      each.category = category_of_name(each.work.name);
      ++profile.unmapped;
      continue;
    }
    each.category = each.work.kind == DeviceWork::Kind::kernel
                        ? profile.kernels[each.kernel].category
                        : Category::memory;
    Invocation*& leader = leaders[each.step][each.kernel];
    if (leader == nullptr || rank(each) > rank(*leader)) leader = &each;
  }
  for (const std::vector<Invocation*>& of_step : leaders)
    for (Invocation* leader : of_step)
      if (leader != nullptr) leader->leads = true;
}

// Computes the load imbalance of threads per kernel. Kernels of a CPU and the spans of a thread are
// in order and do not overlap.
void find_imbalance(Profile& profile) {
  std::vector<size_t> at(profile.threads.size());
  for (Invocation& each : profile.invocations) {
    double most = 0, sum = 0;
    for (size_t thread = 0; thread < at.size(); ++thread) {
      const std::vector<ThreadSpan>& spans = profile.threads[thread];
      double busy = 0;
      while (at[thread] < spans.size() && spans[at[thread]].begin_ns < each.work.begin_ns)
        ++at[thread];
      for (; at[thread] < spans.size() && spans[at[thread]].begin_ns < each.work.end_ns;
           ++at[thread])
        busy += static_cast<double>(spans[at[thread]].end_ns - spans[at[thread]].begin_ns);
      most = std::max(most, busy);
      sum += busy;
    }
    if (sum > 0) each.imbalance = most * static_cast<double>(at.size()) / sum - 1;
  }
}

// Runs the steps of the schedule and records those that are kept. Returns the time of the first
// mark.
int64_t record_steps(Profile& profile, Executable& executable, Device& device,
                     ActivityTracer* tracer, CallLog& log, const ProfileSchedule& schedule,
                     const std::function<void()>& run) {
  std::optional<CpuEvents> cpu;
  ThreadPool* pool = device.host_threads();
  if (!device.has_queue() && pool) cpu.emplace(*pool);
  int64_t origin_ns = 0;
  executable.set_observer(&log);
  const AtEnd detach([&] {
    executable.set_observer(nullptr);
    if (pool) pool->set_spans(nullptr);
  });
  for (int number = 0; number < schedule.steps(); ++number) {
    const bool is_kept = number >= schedule.wait + schedule.warmup;
    if (number == schedule.wait + schedule.warmup) {
      device.synchronize();
      if (tracer) tracer->take();
      if (pool) pool->set_spans(&profile.threads);
      if (cpu) cpu->start();
      origin_ns = log.now_ns();
      if (log.places_events()) device.mark();
    }
    if (is_kept) log.set_step(static_cast<uint32_t>(profile.steps.size()));
    const int64_t begin_ns = log.now_ns();
    run();
    device.synchronize();
    const int64_t end_ns = log.now_ns();
    if (is_kept)
      profile.steps.push_back({.number = number, .begin_ns = begin_ns, .end_ns = end_ns});
  }
  if (cpu) profile.cpu = cpu->stop();
  return origin_ns;
}

// Times as many steps as were recorded, without the recording.
void time_untraced_steps(Profile& profile, Device& device, int steps,
                         const std::function<void()>& run) {
  std::vector<double> host_ms, device_ms;
  for (int i = 0; i < steps; ++i) {
    const int64_t begin_ns = monotonic_ns();
    run();
    device.synchronize();
    host_ms.push_back(1e-6 * static_cast<double>(monotonic_ns() - begin_ns));
  }
  profile.untraced_step_ms = median_of(host_ms);
  // The first tries may return nothing, while the device learns how long the host takes.
  for (int i = 0; i < steps + kTries && device.has_queue(); ++i)
    if (const auto ms = device.busy_ms(run)) device_ms.push_back(*ms);
  if (!device_ms.empty()) profile.untraced_device_ms = median_of(device_ms);
}

}  // namespace

Profile record_profile(Executable& executable, Device& device, ActivityTracer* tracer,
                       const RecordOptions& options) {
  const std::function<void()> run = options.step ? options.step : [&] { executable.run(); };
  if (!device.has_queue()) tracer = nullptr;  // a CPU's kernels are not GPU activity
  Profile profile;
  profile.device = fmt::format("{}: {}", device.name(), device.description());
  profile.source = "the host's clock";
  profile.has_queue = device.has_queue();
  if (profile.has_queue) profile.source = "events between kernels, which were started one by one";
  if (profile.has_queue && !tracer) profile.why_not = options.why_not;
  if (tracer) profile.source = tracer->description();
  profile.kernels = profiled_kernels(executable, options.predict);
  CallLog log(profile.kernels, device, tracer);
  const size_t captured_before = tracer ? tracer->take().captured : 0;
  const int64_t origin_ns =
      record_steps(profile, executable, device, tracer, log, options.schedule, run);
  if (tracer) {
    map_activity(profile, tracer->take(), log.calls(), captured_before);
  } else if (log.places_events()) {
    const std::vector<double> marks = device.take_marks_ms();
    size_t next = 1;  // the first one is the origin
    add_calls(profile, log.calls(), [&](const HostCall&) {
      DeviceWork work;
      work.begin_ns = origin_ns + to_ns(marks.at(next++));
      work.end_ns = origin_ns + to_ns(marks.at(next++));
      return work;
    });
  } else {
    add_calls(profile, log.calls(), [](const HostCall& call) {
      DeviceWork work;
      work.begin_ns = call.begin_ns;
      work.end_ns = call.end_ns;
      return work;
    });
    find_imbalance(profile);
  }
  profile.calls = log.calls();
  find_categories(profile);

  std::vector<double> traced_ms;
  for (const auto& step : profile.steps)
    traced_ms.push_back(1e-6 * static_cast<double>(step.end_ns - step.begin_ns));
  profile.traced_step_ms = median_of(traced_ms);
  if (options.compare && (!tracer || tracer->stop()))
    time_untraced_steps(profile, device, options.schedule.active, run);
  return profile;
}

}  // namespace ridgeline
