// The table of studies: whatever needs to know which ones there are reads it.
#pragma once

#include <map>
#include <span>
#include <string_view>

#include "measure/compare.h"
#include "studies/study.h"

namespace ridgeline {

// In the order of --help and of reports.
std::span<const StudyInfo> studies();
const StudyInfo* find_study(std::string_view name);  // null: none of this name

// What a report needs to know of them: the sections of all, and those that check no values.
std::vector<MakeSection> report_sections();
std::vector<std::string_view> unchecked_studies();
// What reports call the rows of each.
std::map<std::string_view, std::string_view> study_titles();
// For CompareOptions: axes of every study, and of what harnesses wrote.
StudyAxes compare_axes();

// What a study declares with its flags as they are when nothing is given.
struct DeclaredStudy {
  explicit DeclaredStudy(const StudyInfo& info);
  const StudyInfo& info;
  std::unique_ptr<Study> study;
  Flags flags;
};

}  // namespace ridgeline
