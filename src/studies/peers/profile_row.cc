#include "studies/peers/profile_row.h"

#include <algorithm>

#include "base/clock.h"
#include "studies/device_facts.h"
#include "studies/host_tensors.h"
#include "studies/peers/row.h"
#include "studies/profile/metrics.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

Json model_request(const ModelWorkload& model) {
  const TransformerConfig& config = model.config;
  return {{"model",
           {{"d_model", config.d_model},
            {"d_ff", config.d_ff},
            {"layers", config.layers},
            {"heads", config.heads},
            {"vocabulary", config.vocabulary},
            {"context_length", config.context_length},
            {"batch_size", config.batch_size}}},
          {"precision", info(model.precision).name}};
}

double median_step_ms(const Profile& profile) {
  std::vector<int64_t> taken;
  for (const ProfileStep& step : profile.steps) taken.push_back(step.end_ns - step.begin_ns);
  std::ranges::nth_element(taken, taken.begin() + std::ssize(taken) / 2);
  return 1e-6 * static_cast<double>(taken[taken.size() / 2]);
}

}  // namespace

std::optional<Record> run_worker_profile(Worker& worker, WorkerTensors& tensors, Device& device,
                                         const StepWorkload& workload,
                                         const PeerProfileOptions& options, Record described) {
  const auto body = [&](Record& record) {
    const double begin_s = monotonic_s();
    Json request = open_request(device);
    if (const auto* attention = std::get_if<AttentionConfig>(&workload.of)) {
      HostThreads threads(device);
      tensors.provide(*attention, options.seed, threads.runner());
      request.update(attention_request(*attention, tensors));
      request.update({{"gradients", workload.scenario != Scenario::forward}, {"copies", 1}});
    } else {
      request.update(model_request(std::get<ModelWorkload>(workload.of)));
    }
    const ProfileSchedule& schedule = options.schedule;
    request.update(
        {{"study", "profile"},
         {"implementation", workload.peer},
         {"scenario", info(workload.scenario).name},
         {"seed", options.seed},
         {"max_norm", options.max_norm},
         {"results", false},
         {"trace", options.trace.empty() ? "" : std::filesystem::absolute(options.trace).string()},
         {"schedule",
          {{"wait", schedule.wait}, {"warmup", schedule.warmup}, {"active", schedule.active}}}});
    record.device_before = device_state(device);
    const Json answer = ask_worker(worker, request);
    record.device_after = device_state(device);
    const OpenedRow row = worker.parse_or_end([&] { return read_opened(answer); });
    OpenedProfile opened =
        worker.parse_or_end([&] { return read_opened_profile(answer, schedule.active); });
    Profile& profile = opened.profile;
    profile.has_queue = device.has_queue();
    for (int number = 0; number < opened.steps; ++number) {
      const Json step = ask_worker(worker, {{"do", "step"}, {"number", number}});
      worker.parse_or_end([&] { read_profile_step(step, profile); });
    }
    ask_worker(worker, {{"do", "close"}});
    profile.traced_step_ms = median_step_ms(profile);
    record.memory.before_backward = row.memory.before_backward;
    record.memory.peak = row.memory.peak;
    record.memory.process_peak_growth = row.memory.process_peak_growth;
    record.metrics = profile_metrics(profile);
    if (row.facts) (*record.metrics)["peer"] = *row.facts;
    if (!opened.trace_not_written.empty())
      (*record.metrics)["trace_not_written"] = opened.trace_not_written;
    else if (!options.trace.empty())
      (*record.metrics)["trace"] = options.trace.string();
    record.protocol = {.warmups = schedule.wait + schedule.warmup,
                       .iterations = opened.steps,
                       .elapsed_s = monotonic_s() - begin_s};
    if (row.first_run_s) record.protocol.first_run_s = *row.first_run_s;
  };
  return try_row(std::move(described), {}, body, fail_worker_row);
}

}  // namespace ridgeline
