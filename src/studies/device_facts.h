// The facts about a device that records hold, and the peaks that bound its speed.
#pragma once

#include <optional>
#include <string_view>

#include "measure/record.h"
#include "measure/speed_of_light.h"
#include "runtime/device.h"

namespace ridgeline {

// Adds the GPU to the machine's facts and updates their fingerprint. Does nothing for a CPU.
void add_device(MachineFacts& machine, const Device& device);

// The current clocks, power, temperature and throttling. Empty for a CPU, or without NVML.
std::optional<DeviceState> device_state(const Device& device);

// Settings that distinguish rows: threads and instruction set, or the GPU and its architecture.
Json device_settings(const Device& device, uint64_t seed);

// Which arithmetic path the products of each stage use on the device, for a record's metrics:
// {"forward": [{"dtype": "fp16", "products": 3, "macs": ...}], "backward": [...]}.
Json arithmetic_metrics(const Graph& graph, const Device& device);

// The device's speed of light in a dtype, at a generous upper bound of its clock.
Peaks device_peaks(const DeviceFacts& facts, const MachineFacts& machine, std::string_view dtype);

// The dense peak in FLOP/s at the observed clock: a GPU's right after the samples, a CPU's as
// measured. Empty if the clock or the peak is unknown.
std::optional<double> peak_at_clock_seen(const DeviceFacts& facts, const Record& record,
                                         std::string_view dtype);

}  // namespace ridgeline
