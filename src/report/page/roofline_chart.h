// The chart of a roofline: dots of one machine below its ceilings, and below those of others.
#pragma once

#include <string>
#include <vector>

#include "report/page/roofline_dots.h"

namespace ridgeline {

// The dots of one arithmetic (by one number of threads), and its ceilings.
struct PathDots {
  std::string path;  // "fp32"; "fp32, 1 thread" where dots of a machine differ in that
  std::vector<const RooflineDot*> dots = {};
  Ceilings ceilings = {};
};

struct RooflineMachine {
  std::string name;
  std::vector<PathDots> paths = {};          // those with the most dots first
  std::vector<const Record*> profiles = {};  // profiled steps, whose kernels are dots
};

// What the dots are: measured phases, or kernels of profiled steps.
enum class RooflineOf { phases, kernels };
Chart roofline_chart(const ReportContext& context, const RooflineMachine& machine, RooflineOf of);

// The same dots below the data-sheet roofs of GPUs, most of which are hidden at first.
Chart beside_others(const RooflineMachine& machine, Chart chart);

// Returns the dots of attention forward, one per implementation, at the longest of the lengths that
// most of them ran.
std::vector<const RooflineDot*> long_attention(const ReportContext& context,
                                               const RooflineMachine& machine);

// The name of the record's machine, in the title of its chart.
std::string machine_name(const Record& record);

}  // namespace ridgeline
