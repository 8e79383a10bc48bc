// Report section: time and speed of matrix products against their size, beside the library.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/sort_by.h"
#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/quiet.h"
#include "report/page/roofline_dots.h"
#include "report/page/winners.h"
#include "studies/gemm/tables.h"
#include "studies/places.h"

namespace ridgeline {
namespace {

// The edge of a cube (for gemv, of a square) with the same number of multiply-accumulates.
std::optional<double> gemm_edge(const Record& record) {
  double product = 1;
  for (const char* key : {"m", "n", "k"}) {
    const auto size = positive_at(record.workload, key);
    if (!size) return std::nullopt;
    product *= static_cast<double>(*size);
  }
  const bool is_vector = text_at(record.workload, "op") == "gemv";
  return std::round(is_vector ? std::sqrt(product) : std::cbrt(product));
}

// A quantity that is drawn against the size.
struct GemmAxis {
  const char* id;
  const char* title;
  const char* what;  // in the description
  const char* label;
  Quantity quantity;
  Better better;
  double (*of)(double ms, double flops);
};
constexpr GemmAxis kGemmAxes[] = {
    {"gemm-latency", "Latency of matrix products", "Median time", "median time",
     Quantity::milliseconds, Better::lower, [](double ms, double) { return ms; }},
    {"gemm-speed", "Speed of matrix products", "FLOP/s", "speed", Quantity::flops_per_s,
     Better::higher, [](double ms, double flops) { return flops / ms * 1e3; }},
};

Chart gemm_chart(const ReportContext& context, const std::vector<const Record*>& rows,
                 const GemmAxis& axis) {
  Chart chart{.id = axis.id,
              .title = axis.title,
              .description = fmt::format(
                  "{} against the size, the edge of a cube (of gemv, a square) with as many "
                  "multiply-accumulates, one line per implementation; both axes logarithmic.",
                  axis.what)};
  ImplementationLines lines;
  for (const Record* record : rows) {
    const auto edge = gemm_edge(*record);
    if (!edge || !record->cost || record->cost->forward.flops <= 0) continue;
    const auto flops = static_cast<double>(record->cost->forward.flops);
    auto point = timed_point(*edge, *record, "forward", axis.quantity,
                             [&](double ms) { return axis.of(ms, flops); });
    if (!point) continue;
    point->text = fmt::format("n {:.0f}, {}", *edge, point->text);
    lines.add(context, *record, std::move(*point));
  }
  lines.move_to(chart);
  chart.x = log_axis("size n", Quantity::length, lines.xs);
  chart.y = log_axis(axis.label, axis.quantity, lines.ys, axis.better);
  return chart;
}

// The fastest implementation of a setting at its largest size, with the verdict against the
// library.
void answer_products(const ReportContext& context, const std::string& setting,
                     const std::vector<const Record*>& rows, ReportSection& section) {
  const auto flops = [](const Record& record) {
    return record.cost ? static_cast<double>(record.cost->forward.flops) : 0;
  };
  double most = 0;
  for (const Record* record : rows)
    if (median_of(*record, "forward")) most = std::max(most, flops(*record));
  const Record *best = nullptr, *library = nullptr;
  for (const Record* record : rows) {
    const auto ms = median_of(*record, "forward");
    if (!ms || flops(*record) != most || !(*ms > 0)) continue;
    if (record->implementation == "library")
      library = record;
    else if (!best || *ms < *median_of(*best, "forward"))
      best = record;
  }
  if (!best || !(most > 0)) return;
  const double ms = *median_of(*best, "forward");
  // With the share of the roof: speed alone does not show whether it is good.
  const auto speed = [&](const Record& record) {
    const RooflineDot* dot = context.dot(record, "forward");
    return fmt::format(
        "{}{}", quantity_text(Quantity::flops_per_s, most / *median_of(record, "forward") * 1e3),
        dot && dot->roof ? ", " + dot_bound(*dot).of_roof : "");
  };
  section.answer = fmt::format("At n {:.0f} ({}) {} is the fastest of our own by the medians, {}",
                               gemm_edge(*best).value_or(0), setting,
                               shown(best->implementation, 40), speed(*best));
  if (!library) {
    section.answer += ".";
    section.certainty = certainty_of_times(context, "gemm", "Medians; there is no library beside.");
    return;
  }
  const Judgement& judgement = context.verdicts->between(*library, *best, "forward");
  const double ratio = *median_of(*library, "forward") / ms;
  section.answer += fmt::format(
      "; the library reaches {}{}.", speed(*library),
      judgement.verdict == Verdict::same
          ? " (as fast)"
          : fmt::format(" ({}{})", times_as_fast(1 / ratio),
                        judgement.verdict == Verdict::unclear ? ", " + sure_word(judgement) : ""));
  Judged judged;
  judged.add(judgement);
  section.certainty = certainty_of(judged);
}

}  // namespace

ReportSection gemm_section(const ReportContext& context) {
  ReportSection section{.id = "gemm",
                        .title = "Matrix products",
                        .question = "How fast are matrix products, beside a library's?"};
  constexpr std::string_view kSizes[] = {"m", "n", "k"};
  const auto name_of = [](const Record& record) {
    return fmt::format("{}, {}, {}, {}", text_at(record.workload, "op"),
                       text_at(record.workload, "dtype"), text_at(record.settings, "mode"),
                       shown(record.machine.gpu ? record.machine.gpu->model : "CPU", 40));
  };
  std::vector<RowPlace> views = places_of(rows_of_study(context.rows, "gemm"), name_of, kSizes);
  sort_by(views, &RowPlace::name);
  for (const auto& [name, rows] : views) {
    if (section.views.size() == kMostViews) break;
    ReportView view{.name = name, .charts = {}};
    for (const GemmAxis& axis : kGemmAxes)
      if (Chart chart = gemm_chart(context, rows, axis); !chart.series.empty())
        view.charts.push_back(std::move(chart));
    if (view.charts.empty()) continue;
    // Speed says more than time, so its chart comes first.
    std::ranges::reverse(view.charts);
    if (section.views.empty()) answer_products(context, name, rows, section);
    section.views.push_back(std::move(view));
  }
  if (!section.empty())
    for (const std::string& note : gemm_notes(context.rows, *context.verdicts))
      section.sentences.push_back(shown(note, 400));
  return section;
}

}  // namespace ridgeline
