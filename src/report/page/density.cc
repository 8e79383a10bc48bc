#include "report/page/density.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "measure/statistics.h"
#include "report/page/axis.h"

namespace ridgeline {
namespace {

constexpr size_t kFewest = 3, kPlaces = 80;

double width_of(std::span<const double> samples) {
  const Statistics statistics = summarize(samples);
  const double spread = std::min(statistics.std_ms, statistics.iqr_ms / 1.34);
  const double scale = spread > 0 ? spread : statistics.std_ms;
  return 0.9 * scale * std::pow(static_cast<double>(samples.size()), -0.2);
}

bool is_usable(std::span<const double> samples) {
  return samples.size() >= kFewest &&
         std::ranges::all_of(samples, [](double ms) { return std::isfinite(ms) && ms > 0; }) &&
         width_of(samples) > 0;
}

}  // namespace

std::vector<double> densities_at(std::span<const double> samples, std::span<const double> at) {
  const double width = width_of(samples);
  std::vector<double> out(at.size(), 0);
  if (!(width > 0)) return out;
  const double norm =
      1 / (width * static_cast<double>(samples.size()) * std::sqrt(2 * std::numbers::pi));
  for (size_t i = 0; i < at.size(); ++i)
    for (const double sample : samples) {
      const double z = (at[i] - sample) / width;
      out[i] += norm * std::exp(-z * z / 2);
    }
  return out;
}

Chart density_chart(const std::string& title, std::span<const double> base_ms,
                    std::span<const double> new_ms) {
  Chart chart{.id = "samples",
              .title = "Samples: " + title,
              .description = "The density of the samples of both sides over their time."};
  if (!is_usable(base_ms) || !is_usable(new_ms)) return chart;
  const double margin = 3 * std::max(width_of(base_ms), width_of(new_ms));
  if (!(margin > 0)) return chart;
  const double low = std::max(
                   0.0, std::min(std::ranges::min(base_ms), std::ranges::min(new_ms)) - margin),
               high = std::max(std::ranges::max(base_ms), std::ranges::max(new_ms)) + margin;
  std::vector<double> at, ys;
  for (size_t i = 0; i < kPlaces; ++i)
    at.push_back(low + (high - low) * static_cast<double>(i) / (kPlaces - 1));
  const auto add = [&](const char* name, ChartSeries::Mark mark, int colour,
                       std::span<const double> samples) {
    const std::vector<double> density = densities_at(samples, at);
    ChartSeries series{.name = fmt::format("{}, {} samples", name, samples.size()),
                       .mark = mark,
                       .colour = colour};
    for (size_t i = 0; i < at.size(); ++i) {
      series.points.push_back({at[i], density[i], {}});
      ys.push_back(density[i]);
    }
    chart.series.push_back(std::move(series));
  };
  add("base", ChartSeries::Mark::area, -1, base_ms);
  add("new", ChartSeries::Mark::steps, 1, new_ms);
  chart.x = linear_axis("time of a sample", Quantity::milliseconds, at, Better::lower);
  chart.x.min = low;
  chart.x.max = high;
  std::erase_if(chart.x.ticks,
                [&](const Tick& tick) { return tick.value < low || tick.value > high; });
  if (chart.x.ticks.size() < 3) {  // a narrow range far from zero
    chart.x.ticks.clear();
    for (int i = 0; i <= 4; ++i) {
      const double value = low + (high - low) * i / 4;
      chart.x.ticks.push_back({value, quantity_text(Quantity::milliseconds, value)});
    }
  }
  chart.y = linear_axis("density of samples, per ms", Quantity::count, ys);
  chart.numbers = Table{
      .title = chart.title, .columns = {"side", "samples", "median", "least", "most"}, .rows = {}};
  for (const auto& [name, samples] : {std::pair("base", base_ms), {"new", new_ms}}) {
    const Statistics statistics = summarize(samples);
    chart.numbers->rows.push_back({name, fmt::to_string(samples.size()),
                                   quantity_text(Quantity::milliseconds, statistics.median_ms),
                                   quantity_text(Quantity::milliseconds, statistics.min_ms),
                                   quantity_text(Quantity::milliseconds, statistics.max_ms)});
  }
  return chart;
}

}  // namespace ridgeline
