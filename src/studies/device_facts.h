// What a record says of the device that ran, and what bounds its speed.
#pragma once

#include <optional>
#include <string_view>

#include "measure/record.h"
#include "measure/speed_of_light.h"
#include "runtime/device.h"

namespace ridgeline {

// Adds the GPU to the facts of the machine and renews their fingerprint; nothing for a CPU.
void add_device(MachineFacts& machine, const Device& device);

// Clocks, power, temperature and throttling now; empty for a CPU, or without NVIDIA's management
// library.
std::optional<DeviceState> device_state(const Device& device);

// Settings that tell rows apart: threads and instruction set, or the GPU and its architecture.
Json device_settings(const Device& device, uint64_t seed);

// How the products of each pass of a graph are made on the device, for the metrics of a record:
// {"forward": [{"dtype": "fp16", "products": 3, "macs": ...}], "backward": [...]}.
Json arithmetic_metrics(const Graph& graph, const Device& device);

// The speed of light of the device in a dtype, at the highest clock it can have, generously.
Peaks device_peaks(const DeviceFacts& facts, const MachineFacts& machine, std::string_view dtype);

// FLOP/s of the dense peak at the clock that was seen, for shares of it: a GPU's right after the
// samples, a CPU's as measured; empty: no clock or no peak is known.
std::optional<double> peak_at_clock_seen(const DeviceFacts& facts, const Record& record,
                                         std::string_view dtype);

}  // namespace ridgeline
