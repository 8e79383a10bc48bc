#include "studies/comm/row.h"

#include "studies/comm/rank.h"
#include "studies/expected_time.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr const char* kBandwidthIs =
    "bytes of a rank's whole buffer over the median time of the slowest rank (algbw), times what a "
    "rank must send of it, 2(n-1)/n for all-reduce, (n-1)/n for reduce-scatter and all-gather, 1 "
    "for broadcast (busbw), as nccl-tests counts";
constexpr double kBytesPerSecond = 1e9;  // a guess, for progress lines
constexpr int64_t kExchanged = 1 << 20;  // bytes staged per other rank, for sums in pieces

}  // namespace

CommRunner::CommRunner(Device& device, RowOptions options, World* world)
    : device_(device),
      options_(std::move(options)),
      groups_(world, {.interrupted = options_.interrupted}) {}

Record CommRunner::describe(const CommWorkload& workload, const Record& blank) const {
  Record record = describe_row({.study = "comm",
                                .implementation = workload.backend,
                                .workload = {{"collective", name(workload.collective)},
                                             {"bytes", workload.bytes.count},
                                             {"ranks", workload.ranks},
                                             {"dtype", info(workload.dtype).name}}},
                               options_, device_, blank);
  record.device = "cpu";  // buffers are in host memory, whatever the device
  record.settings["launcher"] = groups_.launcher();
  const int64_t beside = workload.backend == "threads" ? 0 : workload.ranks * kExchanged;
  record.memory.predicted_peak = Bytes{workload.ranks * (workload.bytes.count + beside)};
  return record;
}

double CommRunner::expected_s(const CommWorkload& workload, const Record&) const {
  const double once = static_cast<double>(workload.bytes.count) * workload.ranks / kBytesPerSecond;
  return 3 * once + expected_samples_s(once, options_.protocol);
}

std::optional<Record> CommRunner::run(const CommWorkload& workload, Record described) {
  return try_row(std::move(described), label(workload), [&](Record& record) {
    expect_within_budget(*record.memory.predicted_peak, device_);
    groups_.run(
        to_json({.workload = workload, .protocol = options_.protocol, .verify = options_.verify}),
        workload.backend, workload.ranks, record);
    const double seconds = record.find_series(kCommPhase)->statistics.median_ms / 1e3;
    const double algbw = static_cast<double>(workload.bytes.count) / seconds / 1e9;
    (*record.metrics)[kCommPhase] = {
        {"algbw_gb_per_s", algbw},
        {"busbw_gb_per_s", algbw * bus_factor(workload.collective, workload.ranks)}};
    (*record.metrics)["bandwidth_is"] = kBandwidthIs;
  });
}

}  // namespace ridgeline
