#include "report/terminal/story.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/page/answers.h"

namespace ridgeline {
namespace {

constexpr size_t kIndent = 2;

// Words on at most so many lines; the last one ends in "..." where words are left.
std::string wrapped(const std::string& text, size_t width, size_t most) {
  std::string out, line;
  size_t lines = 1;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && kIndent + line.size() + 1 + word.size() > width) {
      if (lines == most) {
        line.resize(std::min(line.size(), width - kIndent - 3));
        return out + std::string(kIndent, ' ') + line + "...\n";
      }
      out += std::string(kIndent, ' ') + line + "\n";
      line.clear();
      ++lines;
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return out + std::string(kIndent, ' ') + line + "\n";
}

}  // namespace

std::string story_text(const ReportDocument& document, size_t width, size_t lines) {
  width = std::clamp<size_t>(width, 40, 160);
  std::vector<const ReportSection*> told;
  for (const ReportSection& section : document.sections)
    if (is_finding(section)) told.push_back(&section);
  if (told.size() > lines / 2) told.resize(lines / 2);
  std::string out;
  // What room is left goes to answers of more than one line, the first ones first.
  size_t spare = told.empty() ? 0 : lines - 2 * told.size();
  for (const ReportSection* section : told) {
    const std::string answer =
        fmt::format("{} [{}]", section->answer, level_name(section->certainty.level));
    const size_t room = 1 + std::min<size_t>(spare, 2);
    const std::string text = wrapped(answer, width, room);
    spare -= static_cast<size_t>(std::ranges::count(text, '\n')) - 1;
    out += section->question + "\n" + text;
  }
  return out;
}

}  // namespace ridgeline
