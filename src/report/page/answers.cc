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

std::string first_sentence(const std::string& answer) {
  constexpr size_t kFewest = 24;  // characters: "All sizes fit." does not answer yet
  int depth = 0;                  // of parentheses, inside which no sentence ends
  for (size_t at = 0; at + 1 < answer.size(); ++at) {
    if (depth == 0 && at >= kFewest && std::string_view(answer).substr(at, 2) == ". ")
      return answer.substr(0, at + 1);
    depth += answer[at] == '(' ? 1 : answer[at] == ')' ? -1 : 0;
  }
  return answer;
}

}  // namespace ridgeline
