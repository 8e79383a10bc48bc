// The section of reports about whole models.
#pragma once

#include "report/page/sections.h"

namespace ridgeline {

ReportSection model_section(const ReportContext& context);

}  // namespace ridgeline
