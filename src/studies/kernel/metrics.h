// What the kernel study derives from a row's times, whoever ran it.
#pragma once

#include <string>
#include <vector>

#include "measure/record.h"
#include "runtime/device.h"
#include "studies/kernel/workload.h"

namespace ridgeline {

// "forward", "forward_host", and the same of backward: the series of a row.
std::vector<std::string> kernel_series(bool backward);

// Bytes that the convention of GB/s counts.
double counted_bytes(const AttentionConfig& config, bool backward);

// Rates and shares from the medians, and the speed-of-light guard, which makes a row invalid.
void add_kernel_metrics(const KernelWorkload& workload, const Device& device, Record& record);

// What a worker is told of a described row: how its samples are taken.
Json kernel_request(const Record& described, const Device& device);

}  // namespace ridgeline
