#include "base/closest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/printable.h"

namespace ridgeline {
namespace {

constexpr size_t kLongestShown = 60;

// Edit distance with substitutions, insertions, deletions and adjacent transpositions.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t differs = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + differs});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last.back();
}

}  // namespace

std::string closest(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 100;        // bounds the quadratic edit distance
  constexpr size_t kShortestPart = 3;     // shorter parts, such as "fp", match too many names
  constexpr size_t kLettersPerError = 3;  // one error per three letters
  const std::string actual = lower_case(word);
  if (actual.empty() || actual.size() > kLongest) return {};
  const std::string* best = nullptr;
  size_t least = 0;
  for (const std::string& name : known) {
    const size_t away = distance(actual, lower_case(name));
    const size_t allowed =
        std::max<size_t>(1, std::min(actual.size(), name.size()) / kLettersPerError);
    if (away > allowed || (best && away >= least)) continue;
    best = &name;
    least = away;
  }
  if (best) return *best;
  for (const std::string& name : known) {
    const std::string other = lower_case(name);
    const bool contains = (actual.size() >= kShortestPart && other.find(actual) != other.npos) ||
                          (other.size() >= kShortestPart && actual.find(other) != actual.npos);
    if (contains && (!best || name.size() < best->size())) best = &name;
  }
  return best ? *best : std::string();
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = closest(word, known);
  return near.empty() ? near : fmt::format("did you mean '{}'? ", near);
}

Error unknown_name(std::string_view name, const KnownNames& known) {
  std::vector<std::string> all = known.names;
  all.insert(all.end(), known.others.begin(), known.others.end());
  return Error(
      ErrorKind::usage, fmt::format("'{}' is not {}", printable(name, kLongestShown), known.what),
      fmt::format("{}use one of: {}{}{}", did_you_mean(name, all), fmt::join(known.names, ", "),
                  known.more.empty() ? "" : "; ", known.more));
}

}  // namespace ridgeline
