// The report section of the precision study: errors by length, losses in training, and its tables.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/quiet.h"
#include "report/record_cells.h"
#include "studies/precision/model_rows.h"
#include "studies/precision/tables.h"
#include "studies/precision/training_rows.h"

namespace ridgeline {
namespace {

void add_point(const ReportContext& context, const Record& record, ImplementationLines& lines) {
  const auto of = [&](const char* name) {
    return std::abs(number_in(*record.metrics, name).value_or(0));
  };
  const auto length = positive_at(record.workload, "length");
  const double error = of("total_error");
  if (!length || !std::isfinite(error) || error <= 0) return;  // not on a logarithmic axis
  lines.add(context, record,
            {static_cast<double>(*length), error,
             fmt::format("{:.3g}: representation {:.3g}, accumulation {:.3g}", error,
                         of("representation_error"), of("accumulation_error"))});
}

// The errors of one op and magnitude, by pairs of formats.
Chart finished(const std::string& op, ImplementationLines lines) {
  Chart chart{.id = "precision-" + op,
              .title = fmt::format("Error of {} by length", op),
              .description = fmt::format(
                  "The error of {} against its length, one line per pair of formats, values/sums; "
                  "both axes logarithmic.",
                  op)};
  lines.move_to(chart);
  chart.x = log_axis("length", Quantity::length, lines.xs);
  chart.y = log_axis("error", Quantity::intensity, lines.ys, Better::lower);
  return chart;
}

Certainty certainty_of_answer(const ReportContext& context, const std::vector<const Record*>& rows,
                              const std::string& note) {
  if (std::ranges::count(precision_model_notes(rows), note) > 0)
    return certainty_of_times(context, "precision", "Medians.");
  if (std::ranges::count(training_notes(rows), note) > 0)
    return {.why = "Losses of training steps."};
  const bool has_errors = std::ranges::any_of(rows, [](const Record* record) {
    return record->metrics && number_in(*record->metrics, "total_error");
  });
  if (has_errors) return {.why = "Compared with exact results."};
  return {.level = Certainty::Level::counted, .why = "Read from the graphs."};
}

}  // namespace

ReportSection precision_section(const ReportContext& context) {
  ReportSection section{.id = "precision",
                        .title = "Precision",
                        .question = "What do narrow numbers cost in accuracy?"};
  std::map<std::string, std::map<std::string, ImplementationLines>> views;  // by name, then by op
  const std::vector<const Record*> rows = rows_of_study(context.rows, "precision");
  for (const Record* record : rows) {
    const std::string op = text_at(record->workload, "op");
    if (op == "repeated" || !record->metrics || !number_in(*record->metrics, "total_error"))
      continue;
    const std::string view = text_at(record->workload, "part") == "norm"
                                 ? "norms of magnitude " + text_at(record->workload, "magnitude")
                                 : "accumulation";
    add_point(context, *record, views[view][op]);
  }
  for (auto& [name, charts] : views) {
    if (section.views.size() == kMostViews) break;
    ReportView view{.name = name};
    for (auto& [op, lines] : charts)
      if (!lines.by_name.empty()) view.charts.push_back(finished(op, std::move(lines)));
    if (!view.charts.empty()) section.views.push_back(std::move(view));
  }
  if (Chart chart = training_chart(context, rows); !chart.series.empty()) {
    ReportView& view = section.views.emplace_back(ReportView{.name = "training"});
    view.charts.push_back(std::move(chart));
  }
  for (const Table& table : precision_tables(rows))
    section.tables.push_back(as_report_table(table));
  if (section.empty()) return section;
  const std::vector<std::string> notes = precision_notes(rows);
  for (const std::string& note : notes) section.sentences.push_back(shown(note, 400));
  if (!notes.empty()) {
    const std::string conclusion = precision_conclusion(rows);
    section.answer = (conclusion.empty() ? section.sentences.front() : conclusion) + ".";
    section.certainty = certainty_of_answer(context, rows, notes.front());
  }
  return section;
}

}  // namespace ridgeline
