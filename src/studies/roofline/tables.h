// Tables and text of the roofline study: ceilings, data sheets, placed ops, and a text plot.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/record_values.h"
#include "measure/roofline_model.h"
#include "report/terminal/table.h"

namespace ridgeline {

// Every probe, one row each: ceiling, dtype, level, probe, size, buffer_bytes, unit, best, median,
// burst, spec, share_of_spec, clock_mhz, status, error.
Table roofline_csv(const RecordRefs& records);

// The roof of each dtype with its ridge, and the bandwidth of each level.
Table compute_ceilings(const Roofline& roofline);
Table memory_ceilings(const Roofline& roofline);

// Dense peaks, bandwidth and ridge points from the data sheets of these GPUs.
Table gpu_spec_table(std::span<const GpuSpec> specs = gpu_specs());

// One row per op and phase: its intensity, its rate against the roof, and its bound.
Table roofline_points(std::span<const RooflinePoint> points);

// A log-log plot in characters: the roof of one path (RooflinePoint::path) and its ops as letters;
// empty without ops.
std::string roofline_plot(const Roofline& roofline, std::string_view path,
                          std::span<const RooflinePoint> points);

// One sentence on what bounds the op and what would help.
std::string sentence(const RooflinePoint& point);

}  // namespace ridgeline
