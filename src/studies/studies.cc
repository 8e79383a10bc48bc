#include "studies/studies.h"

#include <algorithm>

#include "measure/baseline_rows.h"

namespace ridgeline {

// Each is defined at the end of studies/NAME/study.cc.
StudyInfo attention_study();
StudyInfo frontier_study();
StudyInfo kernel_study();
StudyInfo model_study();
StudyInfo memory_study();
StudyInfo gemm_study();
StudyInfo roofline_study();
StudyInfo profile_study();
StudyInfo precision_study();
StudyInfo cost_study();
StudyInfo decode_study();
StudyInfo generate_study();
StudyInfo comm_study();
StudyInfo ddp_study();

std::span<const StudyInfo> studies() {
  static const StudyInfo kStudies[] = {
      attention_study(), frontier_study(), kernel_study(),   model_study(),     memory_study(),
      profile_study(),   gemm_study(),     roofline_study(), precision_study(), cost_study(),
      decode_study(),    generate_study(), comm_study(),     ddp_study(),
  };
  return kStudies;
}

const StudyInfo* find_study(std::string_view name) {
  const auto found = std::ranges::find(studies(), name, &StudyInfo::name);
  return found == studies().end() ? nullptr : &*found;
}

std::vector<MakeSection> report_sections() {
  std::vector<MakeSection> sections;
  // The roofline comes first, because the others refer to its ceilings.
  for (const StudyInfo& info : studies())
    sections.insert(info.name == "roofline" ? sections.begin() : sections.end(),
                    info.sections.begin(), info.sections.end());
  return sections;
}

std::vector<std::string_view> unchecked_studies() {
  std::vector<std::string_view> names;
  for (const StudyInfo& info : studies())
    if (!info.checks_values) names.push_back(info.name);
  return names;
}

std::map<std::string_view, std::string_view> study_titles() {
  std::map<std::string_view, std::string_view> titles;
  for (const StudyInfo& info : studies())
    if (!info.in_reports.empty()) titles.emplace(info.name, info.in_reports);
  return titles;
}

StudyAxes compare_axes() {
  StudyAxes axes = harness_axes();
  for (const StudyInfo& info : studies()) axes.emplace(info.name, info.setting_axes);
  return axes;
}

DeclaredStudy::DeclaredStudy(const StudyInfo& of) : info(of), study(of.make()) {
  study->declare(flags);
}

}  // namespace ridgeline
