// Measures how busy a GPU is with a row, apart from its samples, for the row's record.
#pragma once

#include <functional>
#include <string>

#include "measure/record.h"
#include "runtime/utilisation.h"

namespace ridgeline {

// A meter with the device's sources. It has none for a CPU, nor under `compare --interleave`, where
// the counters would count two programs. `why_not_cupti`: see gpu_utilisation().
UtilisationMeter utilisation_of(const Device& device, const std::string& why_not_cupti = {});

// {"source": "NVML GPM", "sm_active": 0.93, "tensor_active": 0.81, "dram_bytes_per_s": ...,
// "sm_clock_mhz": ..., "seconds": 0.3, "passed_over": ["CUPTI PM sampling: ..."]}
Json utilization_json(const Utilisation& seen);

// Measures utilisation while `work` repeats and adds it to the metrics of the series. Does nothing
// without work or if the meter has no source.
void add_utilization(UtilisationMeter& meter, Device& device, const std::string& series,
                     const std::function<void()>& work, Record& record);

}  // namespace ridgeline
