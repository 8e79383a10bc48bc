// The cost of the first steps of a model: setup, allocations and page faults, unlike later steps.
//
//   FirstSteps first(device);
//   first.take([&] { return device.time_ms(step); });
//   metrics["first_steps"] = first.json();
#pragma once

#include <functional>

#include "base/json.h"
#include "runtime/device.h"

namespace ridgeline {

class FirstSteps {
 public:
  explicit FirstSteps(const Device& device) : device_(device) {}

  // Runs a step, which returns its milliseconds, and records the costs of the first few.
  void take(const std::function<double()>& step);

  // One object per step: ms; setup_ms (Device::setup_seconds); allocation_ms, spent on getting
  // allocated_bytes from the driver or the system; page_faults and system_ms (system time over all
  // threads) of the whole process.
  const Json& json() const { return steps_; }

 private:
  const Device& device_;
  Json steps_ = Json::array();
};

}  // namespace ridgeline
