#include "report/page/markdown.h"

#include <fmt/format.h>

namespace ridgeline {
namespace {

std::string list(const std::vector<std::string>& sentences) {
  std::string out;
  for (const std::string& sentence : sentences) out += "- " + markdown_text(sentence) + "\n";
  return out.empty() ? out : out + "\n";
}

// The command is the last column: it is what a reader copies.
Table plain(const ReportTable& table) {
  Table out{.title = table.title, .columns = table.columns};
  if (!table.details.empty()) out.columns.emplace_back("command");
  for (size_t r = 0; r < table.rows.size(); ++r) {
    std::vector<std::string>& row = out.rows.emplace_back();
    for (const ReportCell& cell : table.rows[r]) row.push_back(cell.text);
    if (table.details.empty()) continue;
    row.emplace_back();
    for (const auto& [label, text] : table.details[r])
      if (label == "command") row.back() = text;
  }
  return out;
}

}  // namespace

std::string to_markdown(const ReportDocument& document) {
  std::string out = fmt::format("# {}\n\n{}\n\n", markdown_text(document.title),
                                markdown_text(document.subtitle));
  for (const KeyFigure& figure : document.figures)
    out += fmt::format("- **{}** {}\n", markdown_text(figure.value), markdown_text(figure.what));
  out += "\n## Summary\n\n" + list(document.summary);
  for (const ReportSection& section : document.sections) {
    out += fmt::format("## {}\n\n", markdown_text(section.title));
    for (const std::string& sentence : section.lead) out += markdown_text(sentence) + "\n\n";
    for (const ReportView& view : section.views)
      for (const Chart& chart : view.charts) {
        Table numbers = chart_table(chart);
        if (!view.name.empty()) numbers.title += fmt::format(" ({})", view.name);
        out += to_markdown(numbers) + "\n";
      }
    out += list(section.sentences);
    for (const ReportTable& table : section.tables) out += to_markdown(plain(table)) + "\n";
  }
  return out + markdown_text(document.footer) + "\n";
}

}  // namespace ridgeline
