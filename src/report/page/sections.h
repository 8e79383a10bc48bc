// The sections of a report that no study owns, and what those of studies share. A section is a
// function from the rows, left out when empty.
#pragma once

#include <optional>
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

// All findings: who wins where and by how much, where memory ends, what to do, and what not to
// trust.
std::vector<std::string> summary_sentences(const ReportContext& context);
// Of these, what was checked, what failed and what is noisy.
std::vector<std::string> trust_sentences(const ReportContext& context);
std::vector<KeyFigure> key_figures(const ReportContext& context);

// Views of one section at most: a results file may hold any number of settings.
inline constexpr size_t kMostViews = 48;

// The median of a series in milliseconds; empty unless the row is good, or was out of memory only
// in a later series.
std::optional<double> median_of(const Record& record, std::string_view series);

// ", naive OOM": why a row has no bar for this series, to follow the name of the category; empty:
// it was measured.
std::string failure_note(const std::string& name, const Record* record, std::string_view series);

}  // namespace ridgeline
