#include "studies/row.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "kernels/cpu/thread_pool.h"
#include "studies/device_facts.h"

namespace ridgeline {
namespace {

// The speed of the threads that run the row; empty if the device has none.
std::optional<ProcessorSpeed> speed_of(Device& device) {
  ThreadPool* pool = device.host_threads();
  if (pool == nullptr) return std::nullopt;
  return processor_speed(pool->threads(), [pool](const std::function<void(int)>& work) {
    pool->for_each(pool->threads(), [&](int64_t index, int) { work(static_cast<int>(index)); });
  });
}

}  // namespace

Record describe_row(const RowIdentity& identity, const RowOptions& options, const Device& device,
                    const Record& blank) {
  Record record = blank;
  record.study = identity.study;
  record.implementation = identity.implementation;
  record.device = device.name();
  record.workload = identity.workload;
  record.settings = device_settings(device, options.seed);
  record.settings.update(options.settings);
  return record;
}

std::optional<Record> try_row(Record record, const std::string& label,
                              const std::function<void(Record&)>& body, FailRow fail) {
  record.time = utc_now();
  if (record.status != Status::ok) return record;
  try {
    body(record);
  } catch (const Interrupted&) {
    return std::nullopt;
  } catch (const Error& error) {
    fail(record, error, label);
  }
  return record;
}

void expect_within_budget(Bytes predicted, const Device& device) {
  const Bytes budget = device.ledger().budget();
  if (predicted > budget)
    throw Error(ErrorKind::out_of_memory,
                fmt::format("the predicted peak of {} is above the budget of {}{}",
                            to_string(predicted), to_string(budget), kNotTried));
}

std::string first_wrong_tensor(const Verification& verification) {
  for (const TensorError& tensor : verification.tensors) {
    if (tensor.max_error <= tensor.tolerance) continue;
    if (std::isnan(tensor.max_error)) return fmt::format("{} is not finite", tensor.name);
    return fmt::format("{} is off by {:.3g}, allowed are {:.3g}", tensor.name, tensor.max_error,
                       tensor.tolerance);
  }
  return {};
}

void take_verification(Record& record, Verification verification) {
  record.verification = std::move(verification);
  judge_verification(record);
}

void judge_verification(Record& record) {
  const std::string wrong = first_wrong_tensor(record.verification);
  if (wrong.empty()) return;
  record.status = Status::wrong;
  record.error += (record.error.empty() ? "" : "; ") + wrong;
}

void mark_if_faster_than_light(Record& record, std::string_view phase, const Achieved& achieved,
                               const Peaks& peaks) {
  const auto reason = faster_than_light(achieved, peaks);
  if (!reason || record.status != Status::ok) return;
  record.status = Status::invalid;
  record.error = phase.empty() ? *reason : fmt::format("{}: {}", phase, *reason);
}

void sample_row(Record& record, Device& device, const RowOptions& options,
                const std::vector<std::string>& series, const TimedIteration& sample) {
  if (!record.device_before) record.device_before = device_state(device);
  const auto look = [&] {
    if (!record.speed_before) record.speed_before = speed_of(device);
  };
  const Measurement measurement =
      measure(options.protocol, series, sample, {.interrupted = options.interrupted, .warm = look});
  if (record.speed_before) record.speed_after = speed_of(device);
  record.device_after = device_state(device);
  if (measurement.interrupted()) throw Interrupted();
  record.series.insert(record.series.end(), measurement.series.begin(), measurement.series.end());
  const double elapsed_s = record.protocol.elapsed_s + measurement.protocol.elapsed_s;
  record.protocol = measurement.protocol;
  record.protocol.elapsed_s = elapsed_s;
}

}  // namespace ridgeline
