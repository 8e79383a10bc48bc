#include "report/terminal/story.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/page/answers.h"

namespace ridgeline {
namespace {

constexpr size_t kIndent = 2;

// Wraps a paragraph; lines after the first are indented.
std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines = {""};
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    const bool is_new = lines.back().empty() || lines.back() == std::string(kIndent, ' ');
    if (!is_new && lines.back().size() + 1 + word.size() > width)
      lines.push_back(std::string(kIndent, ' ') + word);
    else
      lines.back() += (is_new ? "" : " ") + word;
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::string story_text(const ReportDocument& document, size_t width, size_t lines) {
  struct Paragraph {
    std::vector<std::string> lines;
    bool is_trust;  // says how far the others can be trusted, so it is always shown
  };
  width = std::clamp<size_t>(width, 40, 160);
  std::vector<Paragraph> paragraphs;
  for (const ReportSection& section : document.sections)
    if (is_finding(section))
      paragraphs.push_back(
          {wrapped(fmt::format("{} {} [{}]", section.question, first_sentence(section.answer),
                               level_name(section.certainty.level)),
                   width),
           section.id == "trust"});
  for (const Paragraph& each : paragraphs)
    if (each.is_trust) lines -= std::min(lines, each.lines.size());
  std::string out;
  for (const Paragraph& each : paragraphs) {
    if (!each.is_trust && each.lines.size() > lines) continue;
    if (!each.is_trust) lines -= each.lines.size();
    for (const std::string& line : each.lines) out += line + "\n";
  }
  return out;
}

}  // namespace ridgeline
