// How busy a GPU was with a row, measured apart from its samples, as records carry it.
#pragma once

#include <functional>
#include <string>

#include "measure/record.h"
#include "runtime/utilisation.h"

namespace ridgeline {

// The sources of the device; of a CPU none, nor where `compare` leads two programs in turns, as
// counters are of both. `why_not_cupti`: see gpu_utilisation().
UtilisationMeter utilisation_of(const Device& device, const std::string& why_not_cupti = {});

// {"source": "NVML GPM", "sm_active": 0.93, "tensor_active": 0.81, "dram_bytes_per_s": ...,
// "sm_clock_mhz": ..., "seconds": 0.3, "passed_over": ["CUPTI PM sampling: ..."]}
Json utilization_json(const Utilisation& seen);

// Starts `work` over and over, and puts what was seen into the metrics of the series. Without work,
// or with a meter that knows no source, nothing.
void add_utilization(UtilisationMeter& meter, Device& device, const std::string& series,
                     const std::function<void()>& work, Record& record);

}  // namespace ridgeline
