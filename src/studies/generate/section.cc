// Report section: tokens per second over the batch size, measured and as the roofline allows.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/sort_by.h"
#include "measure/record_values.h"
#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/quiet.h"
#include "studies/generate/tables.h"
#include "studies/places.h"

namespace ridgeline {
namespace {

struct BatchPoint {
  double batch = 0, tokens_per_s = 0;
  double low = ChartPoint::kNone, high = ChartPoint::kNone;  // confidence interval
  std::optional<double> roof = {};                           // tokens per second
  std::string roof_of = {};                                  // "the memory roof of loads"

  std::optional<double> share() const {
    return roof ? std::optional(100 * tokens_per_s / *roof) : std::nullopt;
  }
};

// Rows that differ only in implementation and batch size.
struct BatchView {
  std::string name;
  std::map<std::string, std::vector<BatchPoint>> by_implementation;  // in order of batch size
};

// The roof that sets the least time: a level of memory (of loads, if measured alone) or arithmetic.
std::string roof_name(const Record& record) {
  const auto word = [&](const char* key) { return metric_word(record, "decode", key); };
  if (word("bound").empty()) return "its roof";
  if (word("bound") != name(Bound::memory)) return "the arithmetic roof";
  const std::string level = word("roof_level");
  return fmt::format("the {} roof{}", shown(level.empty() ? "memory" : level, 20),
                     word("roof_probe").starts_with(kReadProbe) ? " of loads" : "");
}

std::string view_name(const Record& record) {
  const Json& work = record.workload;
  const std::string device =
      record.device == "cuda" && record.machine.gpu
          ? record.machine.gpu->model
          : fmt::format("CPU, {} threads", text_at(record.settings, "threads"));
  return fmt::format("Gemma 3 {} {}, {}prompt of {} tokens, {}", text_at(work, "model"),
                     text_at(work, "dtype"),
                     text_at(work, "weights") == "random" ? "random weights, " : "",
                     text_at(work, "prompt_tokens"), shown(device, 60));
}

std::optional<BatchPoint> point_of(const Record& record) {
  const auto speed = metric_of(record, "decode", "tokens_per_s");
  if (record.status != Status::ok || !speed || !(*speed > 0)) return std::nullopt;
  const auto batch = static_cast<double>(positive_at(record.workload, "batch_size").value_or(1));
  const auto median = median_of(record, "decode");
  const auto timed = timed_point(batch, record, "decode", Quantity::count,
                                 [&](double ms) { return *speed * median.value_or(ms) / ms; });
  return BatchPoint{.batch = batch,
                    .tokens_per_s = *speed,
                    .low = timed ? timed->low : ChartPoint::kNone,
                    .high = timed ? timed->high : ChartPoint::kNone,
                    .roof = metric_of(record, "decode", "roof_tokens_per_s"),
                    .roof_of = roof_name(record)};
}

std::vector<BatchView> batch_views(const std::vector<const Record*>& rows) {
  constexpr std::string_view kBatch[] = {"batch_size"};
  std::vector<BatchView> views;
  for (const RowPlace& place : places_of(rows, view_name, kBatch)) {
    BatchView view{.name = place.name, .by_implementation = {}};
    for (const Record* record : place.rows)
      if (const auto point = point_of(*record))
        view.by_implementation[shown(record->implementation, 40)].push_back(*point);
    for (auto& [implementation, points] : view.by_implementation)
      sort_by(points, &BatchPoint::batch);
    if (!view.by_implementation.empty()) views.push_back(std::move(view));
  }
  sort_by(views, &BatchView::name);
  return views;
}

// The points of the implementation with the most batch sizes, which represents the view.
const std::vector<BatchPoint>& longest_of(const BatchView& view, std::string& name) {
  const auto most = std::ranges::max_element(view.by_implementation, {},
                                             [](const auto& each) { return each.second.size(); });
  name = most->first;
  return most->second;
}

std::string answer(const BatchView& view) {
  std::string implementation;
  const std::vector<BatchPoint>& points = longest_of(view, implementation);
  const BatchPoint &first = points.front(), &last = points.back();
  const auto share = [&](const BatchPoint& point) {
    if (!point.share()) return std::string();
    return fmt::format(
        " ({:.0f} %{})", *point.share(),
        &point == &first || point.roof_of != first.roof_of ? " of " + point.roof_of : "");
  };
  if (points.size() == 1)
    return fmt::format("{} decodes {:.4g} tokens per second at batch {:.0f}{}.", implementation,
                       first.tokens_per_s, first.batch, share(first));
  const BatchPoint& best = *std::ranges::max_element(points, {}, &BatchPoint::tokens_per_s);
  std::string text = fmt::format("{} decodes {:.4g} tokens per second at batch {:.0f}{}",
                                 implementation, first.tokens_per_s, first.batch, share(first));
  if (&best != &first && &best != &last)
    text +=
        fmt::format(", {:.4g}, the most, at {:.0f}{}", best.tokens_per_s, best.batch, share(best));
  return fmt::format("{} and {:.4g} at {:.0f}{}.", text, last.tokens_per_s, last.batch,
                     share(last));
}

Chart batch_chart(const ReportContext& context, const BatchView& view) {
  Chart chart{.id = "generate-batch",
              .title = "Tokens per second over the batch",
              .description =
                  "Tokens per second of all texts together against the number of texts, one line "
                  "per implementation, and what measured ceilings allow where they are known; "
                  "both axes logarithmic."};
  std::vector<double> xs, ys;
  std::map<double, double> roof;
  for (const auto& [name, points] : view.by_implementation) {
    if (chart.series.size() == kMostImplementations) break;
    ChartSeries series{
        .name = name, .colour = context.colour(name), .points = {}, .implementation = name};
    for (const BatchPoint& point : points) {
      series.points.push_back(
          {point.batch, point.tokens_per_s,
           fmt::format("{:.4g} tokens/s{}", point.tokens_per_s,
                       point.share()
                           ? fmt::format(", {:.0f} % of {}", *point.share(), point.roof_of)
                           : std::string()),
           point.low, point.high});
      xs.push_back(point.batch);
      ys.push_back(point.tokens_per_s);
      if (point.roof) roof[point.batch] = std::max(roof[point.batch], *point.roof);
    }
    chart.series.push_back(std::move(series));
  }
  if (!roof.empty()) {
    ChartSeries series{
        .name = "roofline", .mark = ChartSeries::Mark::line, .colour = -1, .points = {}};
    for (const auto& [batch, speed] : roof) {
      series.points.push_back({batch, speed, fmt::format("at most {:.4g} tokens/s", speed)});
      ys.push_back(speed);
    }
    chart.series.push_back(std::move(series));
  }
  chart.x = log_axis("texts side by side", Quantity::length, xs);
  chart.y = log_axis("tokens per second", Quantity::count, ys, Better::higher);
  return chart;
}

}  // namespace

ReportSection generate_section(const ReportContext& context) {
  ReportSection section{.id = "generate", .title = "Text, token by token"};
  const std::vector<const Record*> rows = rows_of_study(context.rows, "generate");
  if (rows.empty()) return section;
  section.question = "How many tokens per second are decoded?";
  for (const BatchView& view : batch_views(rows)) {
    if (section.views.size() == kMostViews) break;
    if (section.views.empty()) {
      section.answer = answer(view);
      std::string implementation;
      const bool has_roof =
          std::ranges::any_of(longest_of(view, implementation),
                              [](const BatchPoint& point) { return point.roof.has_value(); });
      section.certainty =
          certainty_of_times(context, "generate",
                             has_roof ? "Medians of the tokens of one run; ceilings measured here."
                                      : "Medians of the tokens of one run.");
    }
    section.views.push_back({.name = view.name, .charts = {batch_chart(context, view)}});
  }
  section.tables.push_back(as_report_table(generate_summary(rows)));
  return section;
}

}  // namespace ridgeline
