// Report section: the roofs of several devices, with every workload on each.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/sort_by.h"
#include "measure/record_values.h"
#include "report/page/axis.h"
#include "studies/cost/tables.h"

namespace ridgeline {
namespace {

struct PaperRoof {
  double flops_per_s = 0, bytes_per_s = 0;
  std::vector<ChartPoint> points = {};

  double ridge() const { return flops_per_s / bytes_per_s; }
  double at(double intensity) const { return std::min(flops_per_s, intensity * bytes_per_s); }
};

// The roofs of one dtype, in the order of the records.
struct PaperRoofs {
  std::vector<std::string> names = {};
  std::map<std::string, PaperRoof> by_name = {};
  std::vector<double> intensities = {};
  std::set<std::string> sources = {};  // "data sheet", "measured"
};

std::string source_of(const Record& record) {
  return text_of(record.settings, "ceilings_from");
}

std::string source_words(const std::set<std::string>& sources) {
  if (!sources.contains("measured")) return "data sheets";
  return sources.size() > 1 ? "data sheets and measured ceilings" : "measured ceilings";
}

void add_work(const CostNames& names, const Record& record, PaperRoofs& roofs) {
  const auto number = [&](const char* key) {
    const double value = number_in(*record.metrics, key).value_or(0);
    return value > 0 ? value : 0;
  };
  const double intensity = number("intensity"), peak = number("peak_gflops_per_s"),
               bandwidth = number("gb_per_s");
  if (intensity == 0 || peak == 0 || bandwidth == 0) return;
  const std::string name = shown(names.ceilings(record), 60);
  if (!roofs.by_name.contains(name)) roofs.names.push_back(name);
  PaperRoof& roof = roofs.by_name[name];
  roof.flops_per_s = 1e9 * peak;
  roof.bytes_per_s = 1e9 * bandwidth;
  roof.points.push_back(
      {intensity, roof.at(intensity),
       fmt::format("{}: at most {} at {:.3g} FLOP/byte, at least {}, bounded by {}",
                   shown(names.work(record), 100),
                   quantity_text(Quantity::flops_per_s, roof.at(intensity)), intensity,
                   quantity_text(Quantity::milliseconds, number("least_ms")),
                   shown(text_of(*record.metrics, "bound"), 20))});
  roofs.intensities.push_back(intensity);
  roofs.sources.insert(source_of(record));
}

// Workloads lie on the roof, so a line through them, the ridge and both ends draws the roof.
Chart paper_chart(const std::string& dtype, PaperRoofs& roofs) {
  Chart chart{.id = "cost-roofs",
              .title = fmt::format("Roofs: {} ({})", dtype, source_words(roofs.sources)),
              .description =
                  "The roof of every device, and on it what each work may reach at most at its "
                  "arithmetic intensity; both axes logarithmic."};
  const auto [least, most] = std::ranges::minmax_element(roofs.intensities);
  double low = *least / 2, high = *most * 2;
  for (const auto& [name, roof] : roofs.by_name) {
    low = std::min(low, roof.ridge() / 4);
    high = std::max(high, roof.ridge() * 4);
  }
  std::vector<double> xs, ys;
  for (size_t i = 0; i < roofs.names.size() && i < kMostImplementations; ++i) {
    PaperRoof& roof = roofs.by_name[roofs.names[i]];
    roof.points.push_back({low, roof.at(low), "memory bandwidth"});
    roof.points.push_back(
        {roof.ridge(), roof.flops_per_s, fmt::format("the ridge: {:.3g} FLOP/byte", roof.ridge())});
    roof.points.push_back({high, roof.flops_per_s, "compute peak"});
    sort_by(roof.points, &ChartPoint::x);
    for (const ChartPoint& point : roof.points) {
      xs.push_back(point.x);
      ys.push_back(point.y);
    }
    chart.series.push_back(
        {.name = fmt::format("{}: {}, {:.4g} GB/s", roofs.names[i],
                             quantity_text(Quantity::flops_per_s, roof.flops_per_s),
                             roof.bytes_per_s / 1e9),
         .colour = static_cast<int>(i),
         .points = std::move(roof.points),
         .palette = ChartSeries::Palette::tensors});
  }
  chart.x = log_axis("arithmetic intensity, FLOP per byte", Quantity::intensity, xs);
  chart.y = log_axis("speed at most", Quantity::flops_per_s, ys, Better::higher);
  return chart;
}

// The devices with the shortest and the longest least time of the first workload.
std::string least_words(const CostNames& names, const std::vector<const Record*>& rows) {
  const Record *quickest = nullptr, *slowest = nullptr;
  const auto least = [](const Record& record) { return metric_number(record, "least_ms"); };
  std::string work;
  for (const Record* record : rows) {
    const auto ms = least(*record);
    if (record->status != Status::ok || !ms || !(*ms > 0)) continue;
    const std::string of =
        fmt::format("{} in {}", names.work(*record), text_at(record->workload, "dtype"));
    if (work.empty()) work = of;
    if (of != work) continue;
    if (!quickest || *ms < *least(*quickest)) quickest = record;
    if (!slowest || *ms > *least(*slowest)) slowest = record;
  }
  if (!quickest) return {};
  const auto bound = [](const Record& record) {
    return shown(text_of(*record.metrics, "bound"), 20);
  };
  const auto told = [&](const Record& record) {
    return fmt::format("{} on {}", quantity_text(Quantity::milliseconds, *least(record)),
                       shown(names.ceilings(record), 60));
  };
  std::string text = fmt::format("{} takes at least {}", shown(work, 100), told(*quickest));
  if (slowest == quickest) return fmt::format("{}, bounded by {}.", text, bound(*quickest));
  if (bound(*slowest) == bound(*quickest))
    return fmt::format("{}, and {}, both bounded by {}.", text, told(*slowest), bound(*slowest));
  return fmt::format("{}, bounded by {}, and {}, bounded by {}.", text, bound(*quickest),
                     told(*slowest), bound(*slowest));
}

}  // namespace

ReportSection cost_section(const ReportContext& context) {
  ReportSection section{
      .id = "cost", .title = "Other machines", .question = "What would it cost on other machines?"};
  std::vector<const Record*> rows;
  std::vector<std::string> dtypes;
  std::map<std::string, PaperRoofs> views;
  std::set<std::string> sources;
  const CostNames names(context.rows);
  for (const Record* record : context.rows) {
    if (record->study != "cost" || !record->cost || !record->workload.is_object()) continue;
    rows.push_back(record);
    sources.insert(source_of(*record));
    if (record->status != Status::ok || !record->metrics) continue;
    const std::string dtype = text_at(record->workload, "dtype");
    if (!views.contains(dtype)) dtypes.push_back(dtype);
    add_work(names, *record, views[dtype]);
  }
  if (rows.empty()) return section;
  for (const std::string& dtype : dtypes)
    if (section.views.size() < kMostViews && !views[dtype].intensities.empty())
      section.views.push_back({.name = dtype, .charts = {paper_chart(dtype, views[dtype])}});
  section.answer = least_words(names, rows);
  section.certainty = {.level = Certainty::Level::counted,
                       .why = fmt::format("By {}; nothing was run there.", source_words(sources))};
  for (const std::string& note : cost_notes(rows)) section.sentences.push_back(shown(note, 1000));
  for (const Table& table : {cost_counts(rows), cost_times(rows)})
    section.tables.push_back(as_report_table(table));
  return section;
}

}  // namespace ridgeline
