// Metrics of the kernel study that derive from a row's times, for any implementation.
#pragma once

#include <string>
#include <vector>

#include "measure/record.h"
#include "runtime/device.h"
#include "studies/kernel/workload.h"

namespace ridgeline {

// "forward", "forward_host", and the same of backward: the series of a row.
std::vector<std::string> kernel_series(bool backward);

// The bytes that gb_per_s counts by convention.
double counted_bytes(const AttentionConfig& config, bool backward);

// Adds rates and shares from the medians; a row faster than the speed of light becomes invalid.
void add_kernel_metrics(const KernelWorkload& workload, const Device& device, Record& record);

// The request to a worker process: how it takes the samples of a described row.
Json kernel_request(const Record& described, const Device& device);

}  // namespace ridgeline
