// The roofline as people read it: ceilings, spec sheets, placed ops, and a plot in characters.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/roofline_model.h"
#include "report/terminal/table.h"

namespace ridgeline {

// Every probe, one row each: ceiling, dtype, level, probe, size, buffer_bytes, unit, best, median,
// burst, spec, share_of_spec, clock_mhz, status, error.
Table roofline_csv(std::span<const Record> records);

// The roof of each dtype with its ridge, and the bandwidth of each level.
Table compute_ceilings(const Roofline& roofline);
Table memory_ceilings(const Roofline& roofline);

// Dense peaks, bandwidth and ridge points on paper: of all GPUs that have a row, or of some.
Table gpu_spec_table(std::span<const GpuSpec> specs = gpu_specs());

// One row per op and phase: what it is, where it stands, what bounds it.
Table roofline_points(std::span<const RooflinePoint> points);

// Log-log in characters: the roof of one arithmetic (RooflinePoint::path) and its ops as letters;
// empty without any.
std::string roofline_plot(const Roofline& roofline, std::string_view path,
                          std::span<const RooflinePoint> points);

// What bounds it and what would help, in one sentence.
std::string sentence(const RooflinePoint& point);

}  // namespace ridgeline
