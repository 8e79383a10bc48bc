#include "report/terminal/story.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/page/answers.h"
#include "report/terminal/table.h"

namespace ridgeline {

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
