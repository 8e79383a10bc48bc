// The picture of a roofline: dots of one machine below its ceilings, and below those of others.
#pragma once

#include <string>
#include <vector>

#include "report/page/roofline_dots.h"

namespace ridgeline {

// What was measured in one arithmetic, and its ceilings.
struct PathDots {
  std::string path;
  std::vector<const RooflineDot*> dots = {};
  Ceilings ceilings = {};
};

// One machine: a chart.
struct RooflineMachine {
  std::string name;
  std::vector<PathDots> paths = {};          // those with the most dots first
  std::vector<const Record*> profiles = {};  // whose kernels are dots, too
};

// Of what the dots are: every measured pass, or every kernel of profiled steps.
enum class RooflineOf { passes, kernels };
Chart roofline_chart(const ReportContext& context, const RooflineMachine& machine, RooflineOf of);

// The same dots below the roofs of GPUs on paper, of which a few are shown until more are asked
// for.
Chart beside_others(const RooflineMachine& machine, Chart chart);

// The dots of attention that people ask about: forward of every implementation, at the longest of
// the sizes that most of them run.
std::vector<const RooflineDot*> long_attention(const ReportContext& context,
                                               const RooflineMachine& machine);

// What a chart of its rows is called.
std::string machine_name(const Record& record);

}  // namespace ridgeline
