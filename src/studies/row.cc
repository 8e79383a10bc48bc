#include "studies/row.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "studies/device_facts.h"

namespace ridgeline {

Record describe_row(const RowIdentity& identity, const Device& device, const Record& blank) {
  Record record = blank;
  record.study = identity.study;
  record.implementation = identity.implementation;
  record.device = device.name();
  record.workload = identity.workload;
  record.settings = device_settings(device, identity.seed);
  record.settings.update(identity.settings);
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
                fmt::format("the predicted peak of {} is above the budget of {}; not tried",
                            to_string(predicted), to_string(budget)));
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

void sample_row(Record& record, const Device& device, const Sampling& how,
                const std::vector<std::string>& series, const TimedIteration& sample) {
  if (!record.device_before) record.device_before = device_state(device);
  const Measurement measurement =
      measure(how.protocol, series, sample, {.interrupted = how.interrupted});
  record.device_after = device_state(device);
  if (measurement.interrupted()) throw Interrupted();
  record.series.insert(record.series.end(), measurement.series.begin(), measurement.series.end());
  const double elapsed_s = record.protocol.elapsed_s + measurement.protocol.elapsed_s;
  record.protocol = measurement.protocol;
  record.protocol.elapsed_s = elapsed_s;
}

}  // namespace ridgeline
