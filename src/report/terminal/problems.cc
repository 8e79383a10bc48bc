#include "report/terminal/problems.h"

#include <algorithm>
#include <utility>

#include "base/print.h"

namespace ridgeline {

std::vector<Record> say_problems(ReadResult result, std::string_view where, std::string_view so) {
  constexpr size_t kShown = 5;
  const std::vector<LineProblem>& problems = result.problems;
  if (result.records.empty() && problems.size() > 1) {
    say("{} holds no record (line {}: {}); {}", where, problems[0].line_number, problems[0].reason,
        kWhereRecordsAre);
    return {};
  }
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i)
    say("{} line {}: {}; {}", where, problems[i].line_number, problems[i].reason, so);
  if (problems.size() > kShown) say("and {} more lines of {}", problems.size() - kShown, where);
  return std::move(result.records);
}

}  // namespace ridgeline
