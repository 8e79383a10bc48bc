// The sections of a report that belong to no study, and helpers for all sections. A section is a
// function of the rows, left out when empty.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/page/rows.h"

namespace ridgeline {

ReportSection comparison_section(const ReportContext& context);
ReportSection roofline_section(const ReportContext& context);
ReportSection trust_section(const ReportContext& context);
ReportSection rows_section(const ReportContext& context);
ReportSection machine_section(const ReportContext& context);
ReportSection problems_section(const ReportContext& context);

// All findings: which implementation wins where and by how much, where memory ends, advice, and the
// sentences on trust.
std::vector<std::string> summary_sentences(const ReportContext& context);
// What was checked, what failed, what was disturbed and what is noisy.
std::vector<std::string> trust_sentences(const ReportContext& context);
std::vector<KeyFigure> key_figures(const ReportContext& context);

// Limit on the views of a section: a results file may hold any number of settings.
inline constexpr size_t kMostViews = 48;

// Says why a row has no bar for this series, to be appended to the name of the category: ", naive
// OOM". Returns an empty string if it was measured.
std::string failure_note(const std::string& name, const Record* record, std::string_view series);

}  // namespace ridgeline
