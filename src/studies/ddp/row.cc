#include "studies/ddp/row.h"

#include "runtime/rank_device.h"
#include "studies/ddp/rank.h"
#include "studies/expected_time.h"
#include "studies/model/metrics.h"
#include "studies/row.h"

namespace ridgeline {

DdpRunner::DdpRunner(Device& device, DdpOptions options, World* world)
    : device_(device),
      options_(std::move(options)),
      groups_(world, {.interrupted = options_.row.interrupted}) {}

Record DdpRunner::describe(const DdpWorkload& workload, const Record& blank) const {
  const Distribution& how = workload.distribution;
  Json of_row = workload_json(workload.model);
  of_row["mode"] = info(workload.model.mode).name;
  of_row["ranks"] = how.ranks;
  of_row["backend"] = workload.backend;
  Record record =
      describe_row({.study = "ddp", .implementation = info(how.strategy).name, .workload = of_row},
                   options_.row, device_, blank);
  record.settings["launcher"] = groups_.launcher();
  if (device_.facts().threads > 0) record.settings["threads"] = workload.threads;
  if (const int here = groups_.ranks_of_host(how.ranks); here != how.ranks)
    record.settings["ranks_of_host"] = here;
  if (how.strategy == ParallelStrategy::bucketed)
    record.settings["bucket_mb"] = how.bucket.count / kBucketUnit;
  return record;
}

double DdpRunner::expected_s(const DdpWorkload& workload, const Record& described) const {
  constexpr double kDrawS = 12e-9;  // to draw one parameter on the host
  constexpr double kRunsBesideSamples = 4;
  const TransformerConfig& config = workload.model.config;
  const auto parameters = static_cast<double>(parameter_count(config));
  const double ranks = workload.distribution.ranks;
  const double step = expected_once_s(
      {.flops = ranks * model_flops(config, Scenario::full_step), .bytes = ranks * parameters * 40},
      device_, described.machine);
  return ranks * parameters * kDrawS + kRunsBesideSamples * step +
         expected_samples_s(step, options_.row.protocol);
}

Bytes DdpRunner::predicted_peak(const DdpWorkload& workload) const {
  return Executable(ddp_trace(workload), device_,
                    ddp_options(workload, device_, budget(workload), nullptr))
      .predicted_peak();
}

int64_t DdpRunner::ranks_per_device(const DdpWorkload& workload) const {
  return ridgeline::ranks_per_device(device_.facts(),
                                     groups_.ranks_of_host(workload.distribution.ranks));
}

Bytes DdpRunner::budget(const DdpWorkload& workload) const {
  return {device_.ledger().budget().count / ranks_per_device(workload)};
}

std::optional<Record> DdpRunner::run(const DdpWorkload& workload, Record described) {
  return try_row(std::move(described), label(workload), [&](Record& record) {
    const Bytes of_rank = predicted_peak(workload);
    record.memory.predicted_peak = of_rank;
    const DeviceFacts facts = device_.facts();
    expect_within_budget(Bytes{ranks_per_device(workload) * of_rank.count}, device_);
    groups_.run(to_json(DdpRequest{.workload = workload,
                                   .device = {.kind = facts.kind,
                                              .first_gpu = facts.ordinal,
                                              .deterministic = facts.deterministic},
                                   .budget = budget(workload),
                                   .protocol = options_.row.protocol,
                                   .seed = options_.row.seed,
                                   .verify = options_.row.verify,
                                   .trace = options_.trace}),
                workload.backend, workload.distribution.ranks, record);
  });
}

}  // namespace ridgeline
