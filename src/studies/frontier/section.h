// The section of reports about the longest sequence that fits.
#pragma once

#include "report/page/sections.h"

namespace ridgeline {

ReportSection frontier_section(const ReportContext& context);

}  // namespace ridgeline
