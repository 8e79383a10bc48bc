// What a row of the model study reports beside its times: FLOPs, memory, rates.
#pragma once

#include <string>
#include <vector>

#include "measure/record.h"
#include "studies/model/program.h"

namespace ridgeline {

std::string series_of(Scenario scenario);  // the name of its series
double model_flops(const TransformerConfig& config, Scenario scenario);

// Live bytes at the peak by kind, as records name them: "parameters_bytes" and so on.
Json at_peak_metrics(const ModelMemory& memory);
Json memory_metrics(const MemoryFacts& facts);

// Adds FLOPs by the convention of kModelFlops, and the exact products and bytes of what ran.
void add_costs(const ModelWorkload& workload, const Executable& executable, const Device& device,
               Record& record);

// Adds rates from the medians; a row faster than the speed of light becomes invalid.
void derive_metrics(const ModelWorkload& workload, const std::vector<Scenario>& scenarios,
                    const Device& device, Record& record);

}  // namespace ridgeline
