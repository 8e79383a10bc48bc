// The section of reports about matrix products.
#pragma once

#include "report/page/sections.h"

namespace ridgeline {

ReportSection gemm_section(const ReportContext& context);

}  // namespace ridgeline
