#include "report/page/markdown.h"

#include <fmt/format.h>

#include "report/page/answers.h"

namespace ridgeline {
namespace {

std::string list(const std::vector<std::string>& sentences) {
  std::string out;
  for (const std::string& sentence : sentences) out += "- " + markdown_text(sentence) + "\n";
  return out.empty() ? out : out + "\n";
}

// Of the details, only the command is kept, as the last column.
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

// A block that pull requests show folded.
std::string folded(const std::string& summary, const std::string& text) {
  if (text.empty()) return {};
  return fmt::format("<details><summary>{}</summary>\n\n{}</details>\n\n", summary, text);
}

std::string numbers_of(const ReportView& view, const Chart& chart) {
  Table numbers = chart_table(chart);
  if (!view.name.empty()) numbers.title += fmt::format(" ({})", view.name);
  return to_markdown(numbers) + "\n";
}

std::string answer_of(const ReportSection& section) {
  if (section.answer.empty()) return {};
  std::string out =
      fmt::format("{} *{}", markdown_text(section.answer), level_name(section.certainty.level));
  if (!section.certainty.why.empty()) out += ": " + markdown_text(section.certainty.why);
  return out + "*\n\n";
}

// Shows the numbers of the picture; folds other charts, other views, notes and tables.
std::string section_text(const ReportSection& section) {
  std::string out = fmt::format(
      "## {}\n\n", markdown_text(section.question.empty() ? section.title : section.question));
  out += answer_of(section);
  for (const Term& term : section.terms)
    out += fmt::format("- **{}**: {}\n", markdown_text(term.word), markdown_text(term.meaning));
  if (!section.terms.empty()) out += "\n";
  std::string details;
  for (size_t v = 0; v < section.views.size(); ++v)
    for (size_t i = 0; i < section.views[v].charts.size(); ++i) {
      const bool is_picture = v == 0 && i < section.views[v].pictures;
      (is_picture ? out : details) += numbers_of(section.views[v], section.views[v].charts[i]);
    }
  details += list(section.sentences);
  for (const ReportTable& table : section.tables) details += to_markdown(plain(table)) + "\n";
  return out + folded("Details: " + markdown_text(section.title), details);
}

}  // namespace

std::string to_markdown(const ReportDocument& document) {
  std::string out = fmt::format("# {}\n\n{}\n\n", markdown_text(document.title),
                                markdown_text(document.subtitle));
  for (const KeyFigure& figure : document.figures)
    out += fmt::format("- **{}** {}\n", markdown_text(figure.value), markdown_text(figure.what));
  out += "\n## Answers\n\n";
  for (const ReportSection& section : document.sections)
    if (is_finding(section))
      out += fmt::format("- **{}** {} ({})\n", markdown_text(section.question),
                         markdown_text(first_sentence(section.answer)),
                         level_name(section.certainty.level));
  out += "\n" + folded("All findings", list(document.summary));
  for (const ReportSection& section : document.sections) out += section_text(section);
  return out + markdown_text(document.footer) + "\n";
}

}  // namespace ridgeline
