// Sections of reports about attention; its kernels have the same charts.
#pragma once

#include "report/page/sections.h"

namespace ridgeline {

ReportSection attention_time_section(const ReportContext& context);
ReportSection attention_memory_section(const ReportContext& context);
ReportSection kernel_section(const ReportContext& context);

}  // namespace ridgeline
