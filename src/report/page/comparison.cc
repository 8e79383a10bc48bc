// The section of verdicts: the rows of a report against those of a base.
#include <charconv>
#include <cmath>

#include "report/page/sections.h"
#include "report/terminal/compare.h"

namespace ridgeline {
namespace {

// Sorted by the number that it begins with, as "0.953x" and "3.20x slower" do: what is slower by
// more comes further down.
ReportCell cell_of(const std::string& text) {
  ReportCell cell{text, {}};
  double number = 0;
  const bool found =
      std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc{};
  if (found && std::isfinite(number))  // "nano" begins with a NaN
    cell.number = text.ends_with(" slower") ? -number : number;
  return cell;
}

}  // namespace

ReportSection comparison_section(const ReportContext& context) {
  ReportSection section{.id = "verdicts", .title = "Faster or slower"};
  if (!context.input.comparison) return section;
  section.sentences = comparison_sentences(*context.input.comparison);
  const Table verdicts = comparison_table(*context.input.comparison);
  ReportTable table{.title = verdicts.title, .columns = verdicts.columns};
  for (const std::vector<std::string>& row : verdicts.rows) {
    std::vector<ReportCell>& cells = table.rows.emplace_back();
    for (const std::string& text : row) cells.push_back(cell_of(text));
  }
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace ridgeline
