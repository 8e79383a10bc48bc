#include "studies/peers/row.h"

#include <algorithm>

#include "base/clock.h"
#include "measure/turns.h"
#include "studies/attention/verify.h"
#include "studies/host_tensors.h"
#include "studies/row.h"

namespace ridgeline {
WorkerSamples::WorkerSamples(Worker& worker, size_t series, const Protocol& protocol)
    : worker_(worker), series_(series), left_(protocol.warmups + protocol.iterations) {
  if (protocol.time_budget_s > 0) left_ = kMaxIterations;
}

void WorkerSamples::next(std::span<double> out) {
  if (at_ == batch_.size()) fetch();
  std::ranges::copy(batch_[at_++], out.begin());
}

void WorkerSamples::fetch() {
  constexpr double kBatchSeconds = 0.25;
  const double begin = monotonic_s();
  const Json answer = ask_worker(worker_, {{"do", "sample"}, {"count", count_}});
  batch_ = worker_.parse_or_end([&] { return read_samples(answer, series_); });
  at_ = 0;
  left_ = std::max(1, left_ - count_);
  const double each = (monotonic_s() - begin) / count_;
  count_ = static_cast<int>(std::clamp(kBatchSeconds / each, 1.0, 1000.0));
  count_ = is_led() ? 1 : std::min(count_, left_);  // turns alternate after each sample
}

Json ask_worker(Worker& worker, const Json& request) {
  std::optional<Json> answer = worker.ask(request);
  if (!answer) throw Interrupted();
  return std::move(*answer);
}

Json open_request(const Device& device) {
  const DeviceFacts facts = device.facts();
  return {
      {"do", "open"},
      {"device", facts.is_gpu() ? facts.kind + ":" + std::to_string(facts.ordinal) : facts.kind},
      {"threads", facts.threads},
      {"budget_bytes", device.ledger().budget().count}};
}

Json attention_request(const AttentionConfig& config, const WorkerTensors& tensors) {
  return {{"shape", {config.batch_size, config.heads, config.seq_len, config.head_dim}},
          {"dtype", info(config.dtype).name},
          {"causal", config.causal},
          {"folder", tensors.folder().string()}};
}

std::optional<Record> run_worker_row(Worker& worker, WorkerTensors& tensors, Device& device,
                                     const WorkerRow& row, const RowOptions& options,
                                     Record described) {
  const auto body = [&](Record& record) {
    HostThreads threads(device);
    tensors.provide(row.config, options.seed, threads.runner());
    Json request = open_request(device);
    request.update(attention_request(row.config, tensors));
    request.update({{"gradients", row.gradients}, {"results", options.verify}});
    request.update(row.request);
    const Json answer = ask_worker(worker, request);
    const OpenedRow opened = worker.parse_or_end([&] { return read_opened(answer); });
    record.memory.before_backward = opened.memory.before_backward;
    record.memory.peak = opened.memory.peak;
    record.memory.process_peak_growth = opened.memory.process_peak_growth;
    if (opened.facts) record.metrics = Json{{"peer", *opened.facts}};
    if (options.verify)
      take_verification(record, verify_attention(
                                    row.config, {.gradients = row.gradients},
                                    [&](const char* tensor, int64_t head) {
                                      return tensors.read(row.config, tensor, head);
                                    },
                                    options.seed, threads.runner()));
    WorkerSamples samples(worker, row.series.size(), options.protocol);
    sample_row(record, device, options, row.series,
               [&](std::span<double> phase_ms) { samples.next(phase_ms); });
    ask_worker(worker, {{"do", "close"}});
    if (opened.first_run_s) record.protocol.first_run_s = *opened.first_run_s;
  };
  return try_row(std::move(described), {}, body, fail_worker_row);
}

}  // namespace ridgeline
