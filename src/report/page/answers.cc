#include "report/page/answers.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ridgeline {

bool is_finding(const ReportSection& section) {
  constexpr std::array<std::string_view, 3> kLists = {"rows", "machine", "problems"};
  return !section.question.empty() && !section.answer.empty() &&
         std::ranges::find(kLists, section.id) == kLists.end();
}

std::string first_clause(const std::string& answer) {
  constexpr size_t kFewest = 24, kEnough = 76;  // characters
  size_t end = std::string::npos;
  for (const char* stop : {". ", "; ", ": "}) end = std::min(end, answer.find(stop, kFewest));
  if (std::min(end, answer.size()) > kEnough) end = std::min(end, answer.find(", ", kEnough));
  return end >= answer.size() ? answer : answer.substr(0, end) + ".";
}

}  // namespace ridgeline
