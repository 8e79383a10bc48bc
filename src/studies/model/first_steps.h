// What the first steps of a model cost beside those that follow: each with what happened in it
// once.
//
//   FirstSteps first(device);
//   first.take([&] { return device.time_ms(step); });
//   metrics["first_steps"] = first.json();
#pragma once

#include <functional>
#include <vector>

#include "base/json.h"
#include "runtime/device.h"

namespace ridgeline {

class FirstSteps {
 public:
  explicit FirstSteps(const Device& device) : device_(device) {}

  // Runs a step that tells its milliseconds; of the first few the costs are kept.
  void take(const std::function<double()>& step);

  // An object per step: ms; setup_ms (Device::setup_seconds) and allocation_ms, in which
  // allocated_bytes were asked of the driver or the system; page_faults and system_ms of the whole
  // process, the system's time on all its threads.
  const Json& json() const { return steps_; }

 private:
  const Device& device_;
  Json steps_ = Json::array();
};

}  // namespace ridgeline
