// The table of studies, and what reports and `compare` derive from it.
#pragma once

#include <map>
#include <span>
#include <string_view>

#include "measure/compare.h"
#include "studies/study.h"

namespace ridgeline {

// In the order of --help and, after the roofline, of reports.
std::span<const StudyInfo> studies();
const StudyInfo* find_study(std::string_view name);  // null: none of this name

// For reports: the sections of all studies, and the studies that check no values.
std::vector<MakeSection> report_sections();
std::vector<std::string_view> unchecked_studies();
// What reports call the rows of each study.
std::map<std::string_view, std::string_view> study_titles();
// For CompareOptions: the axes of every study, and of records that harnesses wrote.
StudyAxes compare_axes();

// A study and its flags, with default values.
struct DeclaredStudy {
  explicit DeclaredStudy(const StudyInfo& info);
  const StudyInfo& info;
  std::unique_ptr<Study> study;
  Flags flags;
};

}  // namespace ridgeline
