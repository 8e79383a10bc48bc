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
  int depth = 0;                                // of parentheses, which are never cut
  for (size_t at = 0; at + 1 < answer.size(); ++at) {
    const std::string_view here = std::string_view(answer).substr(at, 2);
    const bool is_long = at >= kEnough;
    const bool ends = (at >= kFewest && (here == ". " || here == "; " || here == ": ")) ||
                      (is_long && (here == ", " || here == " ("));
    if (depth == 0 && ends) return answer.substr(0, at) + ".";
    depth += answer[at] == '(' ? 1 : answer[at] == ')' ? -1 : 0;
  }
  return answer;
}

}  // namespace ridgeline
