// What a row of the transformer study tells beside its times: FLOPs, memory, rates.
#pragma once

#include <string>
#include <vector>

#include "measure/record.h"
#include "studies/model/program.h"

namespace ridgeline {

std::string series_of(Scenario scenario);  // the name of its times
double model_flops(const TransformerConfig& config, Scenario scenario);

// What lives in the worst moment, as it stands in records: "parameters_bytes" and so on.
Json at_peak_metrics(const ModelMemory& memory);
Json memory_metrics(const MemoryFacts& facts);

// FLOPs by the convention of kModelFlops, exact products and bytes of what ran.
void add_costs(const ModelWorkload& workload, const Executable& executable, const Device& device,
               Record& record);

// Rates from the medians, and the speed-of-light guard.
void derive_metrics(const ModelWorkload& workload, const std::vector<Scenario>& scenarios,
                    const Device& device, Record& record);

}  // namespace ridgeline
