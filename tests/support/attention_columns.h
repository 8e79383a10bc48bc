// The columns of attention.csv, as docs/records.md promises them.
#pragma once

#include <string>
#include <vector>

namespace ridgeline::testing {

inline const std::vector<std::string> kAttentionColumns = {"batch_size",
                                                           "seq_len",
                                                           "d_model",
                                                           "heads",
                                                           "causal",
                                                           "dtype",
                                                           "device",
                                                           "implementation",
                                                           "compiled",
                                                           "backward",
                                                           "forward_mean_ms",
                                                           "forward_std_ms",
                                                           "backward_mean_ms",
                                                           "backward_std_ms",
                                                           "total_mean_ms",
                                                           "forward_median_ms",
                                                           "backward_median_ms",
                                                           "memory_before_backward_mb",
                                                           "peak_memory_mb",
                                                           "process_peak_growth_mb",
                                                           "error_over_tolerance",
                                                           "compile_seconds",
                                                           "status",
                                                           "error"};

}  // namespace ridgeline::testing
