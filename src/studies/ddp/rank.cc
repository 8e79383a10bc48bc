#include "studies/ddp/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/clock.h"
#include "base/error.h"
#include "base/machine_limits.h"
#include "base/random.h"
#include "dist/device_communicator.h"
#include "dist/silent_communicator.h"
#include "dist/store.h"
#include "runtime/rank_device.h"
#include "studies/attention/workload.h"
#include "studies/ddp/forecast.h"
#include "studies/ddp/timeline.h"
#include "studies/model/inputs.h"
#include "studies/ranks/tasks.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr int kHashedSteps = 3;  // steps after which ranks compare parameters
const AdamWOptions kDdpOptimizer = {};

uint64_t mixed(uint64_t x) {
  return NormalRandom(x, "").next_bits();
}

uint64_t hash_of(const std::string& text) {
  return NormalRandom(0, text).next_bits();
}

double as_double(uint64_t bits) {
  return std::bit_cast<double>(bits);
}

bool is_sharded(const DdpRequest& request) {
  return info(request.workload.distribution.strategy).shards_moments;
}

std::string host_of(const Communicator& communicator) {
  return rank_facts(communicator.rank(), communicator.size()).host;
}

struct HostPlace {
  int rank = 0, ranks = 1;  // among the ranks of its host
};

HostPlace place_on_host(Communicator& communicator) {
  const std::vector<double> hosts =
      all_gather_values(communicator, as_double(hash_of(host_of(communicator))));
  HostPlace place{.ranks = 0};
  for (size_t other = 0; other < hosts.size(); ++other) {
    const auto mine = static_cast<size_t>(communicator.rank());
    if (std::bit_cast<uint64_t>(hosts[other]) != std::bit_cast<uint64_t>(hosts[mine])) continue;
    ++place.ranks;
    if (other < mine) ++place.rank;
  }
  return place;
}

void expect_a_gpu_for_each(Communicator& communicator, const DeviceFacts& facts) {
  const std::vector<double> gpus =
      all_gather_values(communicator, as_double(hash_of(host_of(communicator) + facts.bus_id)));
  for (size_t a = 0; a < gpus.size(); ++a)
    for (size_t b = a + 1; b < gpus.size(); ++b)
      if (std::bit_cast<uint64_t>(gpus[a]) == std::bit_cast<uint64_t>(gpus[b]))
        throw Error(
            ErrorKind::unsupported,
            fmt::format("ranks {} and {} have the same GPU, and NCCL serves one rank of each", a,
                        b),
            "another backend stages tensors through the host: --backend threads or gloo");
}

std::unique_ptr<Communicator> communicator_over(Device& device, Communicator& host,
                                                const std::string& backend) {
  DeviceQueue* queue = device.communication_queue();
  if (backend == kNcclBackend) {
    if (queue == nullptr)
      throw Error(ErrorKind::unsupported, "NCCL serves ranks that compute on GPUs",
                  "use --device cuda");
    expect_a_gpu_for_each(host, device.facts());
  }
  return queue ? make_device_communicator(host, *queue, backend) : nullptr;
}

class DdpRank {
 public:
  DdpRank(Communicator& communicator, const DdpRequest& request)
      : communicator_(communicator),
        request_(request),
        config_(request.workload.model.config),
        place_(place_on_host(communicator)),
        device_(make_rank_device(request.device, place_.rank)),
        over_device_(communicator_over(*device_, communicator, request.workload.backend)),
        inputs_(*device_, {.seed = request.seed}) {}

  // Prepares the step to run with these collectives.
  void prepare(Communicator& collectives) {
    step_.emplace(ddp_trace(request_.workload), *device_,
                  ddp_options(request_.workload, *device_, request_.budget, &collectives));
    // Rank 0 compiles first, so that the others find its kernels in the cache on disk.
    if (communicator_.rank() == 0) step_->prepare();
    communicator_.barrier();
    if (communicator_.rank() != 0) step_->prepare();
    inputs_.fill(*step_, config_);
    for (const char* name : {"tokens", "targets"}) {
      const ModelInputs of_rank(*device_, {.seed = mixed(request_.seed + rank_number() + 1)});
      device_->upload(step_->input(name), of_rank.ids(config_, name).data());
    }
    steps_ = 0;
  }

  // Predicts the time of a step. Discards a step that was prepared.
  StepForecast forecast() {
    const auto silent = make_silent_communicator(collectives().facts());
    prepare(*silent);
    const StepForecast found =
        forecast_step(communicator_, collectives(), *device_,
                      {.run_s = [this] { return run_step_ms() / 1e3; },
                       .collectives = [this] { return step_->collectives(); }},
                      {.ranks = place_.ranks,
                       .threads = device_->facts().threads,
                       .processors = available_threads()});
    step_.reset();
    return found;
  }

  // Runs a step and returns its milliseconds on this rank.
  double run_ms() {
    inputs_.set_step(*step_, ++steps_, kDdpOptimizer);
    communicator_.barrier();
    return run_step_ms();
  }

  // Runs a step and returns when it computed and communicated.
  RankTimeline traced_step() {
    SliceObserver observer(*device_);
    step_->set_observer(&observer);
    inputs_.set_step(*step_, ++steps_, kDdpOptimizer);
    communicator_.barrier();
    const int64_t began = monotonic_ns();
    run_step_ms();
    step_->set_observer(nullptr);
    return observer.timeline(step_->collectives(), began);
  }

  // A sum over the elements of all parameters, so that the hashes of shards add up.
  ParametersHash hash() {
    uint64_t sum = 0;
    const std::vector<Parameter> parameters = transformer_parameters(config_);
    for (size_t number = 0; number < parameters.size(); ++number) {
      const Executable::Held held = step_->held(parameters[number].name);
      std::vector<float> values(static_cast<size_t>(held.count));
      if (held.count == 0) continue;
      device_->download({held.view.data, DType::f32, {held.count}, {1}}, values.data());
      for (size_t i = 0; i < values.size(); ++i)
        sum += mixed(std::bit_cast<uint32_t>(values[i]) ^
                     mixed(mixed(number) + static_cast<uint64_t>(held.begin) + i));
    }
    std::vector<uint64_t> all;
    for (const double each : all_gather_values(communicator_, as_double(sum)))
      all.push_back(std::bit_cast<uint64_t>(each));
    return parameters_hash(all, is_sharded(request_));
  }

  Executable& step() { return *step_; }
  Device& device() { return *device_; }
  // For device memory; communicator_ connects the hosts.
  Communicator& collectives() { return over_device_ ? *over_device_ : communicator_; }

 private:
  uint64_t rank_number() const { return static_cast<uint64_t>(communicator_.rank()); }

  double run_step_ms() {
    const int64_t began = monotonic_ns();
    step_->run();
    device_->synchronize();
    return static_cast<double>(monotonic_ns() - began) / 1e6;
  }

  Communicator& communicator_;
  const DdpRequest& request_;
  TransformerConfig config_;
  HostPlace place_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Communicator> over_device_;  // null: the device uses host memory
  std::optional<Executable> step_;
  ModelInputs inputs_;
  int64_t steps_ = 0;
};

// Why some rank runs eagerly; empty if all run as requested.
std::string fallback_of_any(Communicator& communicator, const std::string& mine) {
  const std::vector<double> all = all_gather_values(communicator, mine.empty() ? 0 : 1);
  const auto first = std::ranges::find(all, 1.0);
  if (!mine.empty() || first == all.end()) return mine;
  return fmt::format("rank {} could not compile its kernels", first - all.begin());
}

DdpRequest ddp_request(const Json& json) {
  const Json &device = json["device"], &budget = json["budget"];
  return {.workload = ddp_workload(json["workload"]),
          .device = {.kind = device["kind"].text(),
                     .threads = json["workload"]["threads"].get<int>(),
                     .first_gpu = device["first_gpu"].get<int>(),
                     .deterministic = device["deterministic"].get<bool>()},
          .budget = budget.is_null() ? std::nullopt : std::optional(Bytes{budget.get<int64_t>()}),
          .protocol = protocol_in(json),
          .seed = json["seed"].get<uint64_t>(),
          .verify = json["verify"].get<bool>(),
          .trace = json["trace"].text()};
}

}  // namespace

Json to_json(const DdpRequest& request) {
  Json json = {{"task", "ddp"},
               {"backend", request.workload.backend},
               {"workload", to_json(request.workload)},
               {"device", Json{{"kind", request.device.kind},
                               {"first_gpu", request.device.first_gpu},
                               {"deterministic", request.device.deterministic}}},
               {"budget", request.budget ? Json(request.budget->count) : Json()},
               {"seed", request.seed},
               {"verify", request.verify},
               {"trace", request.trace}};
  add_protocol(json, request.protocol);
  return json;
}

Trace ddp_trace(const DdpWorkload& workload) {
  return [workload](const Rewrite& forward) {
    return training_graph(workload.model.config,
                          {.scenario = Scenario::full_step,
                           .optimizer = optimizer_of(workload.model, kDdpOptimizer),
                           .loss_weight = 1.0 / workload.distribution.ranks,
                           .micro_batches = workload.model.micro_batches,
                           .forward_pass = forward});
  };
}

CompileOptions ddp_options(const DdpWorkload& workload, const Device& device,
                           std::optional<Bytes> budget, Communicator* communicator) {
  CompileOptions options = model_options(workload.model);
  options.budget = budget;
  options.backward = backward_algorithm({}, device.facts());
  options.distribution = workload.distribution;
  options.communicator = communicator;
  return options;
}

ParametersHash parameters_hash(std::span<const uint64_t> of_ranks, bool is_sharded) {
  if (is_sharded) return {.value = std::accumulate(of_ranks.begin(), of_ranks.end(), uint64_t{0})};
  const bool is_same =
      std::ranges::all_of(of_ranks, [&](uint64_t each) { return each == of_ranks[0]; });
  return {.value = of_ranks[0], .is_same = is_same};
}

std::string ddp_label(const Json& request) {
  return label(ddp_workload(request["workload"]));
}

Record ddp_task(Communicator& communicator, const Json& json,
                const std::function<bool()>& interrupted) {
  const DdpRequest request = ddp_request(json);
  DdpRank rank(communicator, request);
  const StepForecast forecast = rank.forecast();
  rank.prepare(rank.collectives());
  Ledger& ledger = rank.device().ledger();
  ledger.start_over();
  Record record;
  ParametersHash hash;
  for (int step = 0; step < kHashedSteps; ++step) {
    rank.run_ms();
    const ParametersHash after = rank.hash();
    hash = {after.value, hash.is_same && after.is_same};
  }
  const auto peak = static_cast<int64_t>(
      std::ranges::max(all_gather_values(communicator, static_cast<double>(ledger.peak().count))));
  const std::string fallback = fallback_of_any(communicator, rank.step().fallback());
  ledger.keep_blocks();
  const CommunicationTotals once = totals(rank.step().collectives());

  const auto sample = [&](std::span<double> phase_ms) {
    const double step_ms = rank.run_ms();
    const CommunicationTotals spent = totals(rank.step().collectives());
    const double slowest = std::ranges::max(all_gather_values(communicator, step_ms));
    const double communication =
        std::ranges::max(all_gather_values(communicator, spent.communication_ms));
    const double exposed = std::ranges::max(all_gather_values(communicator, spent.exposed_ms));
    if (phase_ms.empty()) return;
    phase_ms[0] = slowest;
    phase_ms[1] = communication;
    phase_ms[2] = exposed;
  };
  if (communicator.rank() != 0) {
    while (broadcast_continue(communicator, true)) sample({});
    if (!request.trace.empty()) timelines_of_all(communicator, rank.traced_step());
    return record;
  }
  const Measurement measured = measure(request.protocol, {kDdpStep, kDdpCommunication, kDdpExposed},
                                       [&](std::span<double> phase_ms) {
                                         broadcast_continue(communicator, true);
                                         sample(phase_ms);
                                       },
                                       {.interrupted = interrupted});
  broadcast_continue(communicator, false);
  if (!request.trace.empty())
    write_rank_trace(timelines_of_all(communicator, rank.traced_step()), label(request.workload),
                     request.trace);
  if (measured.interrupted()) throw Interrupted();
  record.series = measured.series;
  record.protocol = measured.protocol;
  record.memory.peak = Bytes{peak};
  record.memory.predicted_peak = rank.step().predicted_peak();
  double predicted_bytes = 0;
  for (const Cost& cost : rank.step().kernel_costs()) predicted_bytes += cost.communicated;
  record.metrics = Json{{"backend", request.workload.backend},
                        {"library", rank.collectives().facts().library},
                        {"collectives", once.collectives},
                        {"bytes_per_step", once.sent_bytes},
                        {"predicted_bytes_per_step", predicted_bytes},
                        {"parameters_hash", fmt::format("{:016x}", hash.value)},
                        {"hashed_steps", kHashedSteps},
                        {"compute_alone_ms", 1e3 * forecast.compute_alone_s},
                        {"compute_ms", 1e3 * forecast.step.compute_s},
                        {"sharing", forecast.sharing},
                        {"predicted_communication_ms", 1e3 * forecast.step.communication_s},
                        {"predicted_step_ms", 1e3 * forecast.step.step_s}};
  if (!fallback.empty()) (*record.metrics)["ran_eagerly_because"] = fallback;
  if (request.verify && is_sharded(request))
    record.verification.what = "nothing: no two ranks have the same part of a parameter";
  else if (request.verify)
    take_verification(record, {.checked = true,
                               .what = fmt::format("parameters of all ranks after each of {} steps",
                                                   kHashedSteps),
                               .oracle = "those of rank 0, bit by bit",
                               .tensors = {{"parameters", hash.is_same ? 0.0 : 1.0, 0}}});
  return record;
}

}  // namespace ridgeline
