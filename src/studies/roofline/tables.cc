#include "studies/roofline/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/record_cells.h"

namespace ridgeline {
namespace {

std::string number_at(const Json& object, const std::string& key) {
  const Json* found = object.find_key(key);
  return found && found->is_number() ? fmt::format("{:.6g}", found->get<double>()) : std::string();
}

std::string share(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}", 100 * part / whole) : std::string();
}

std::string giga(double rate) {
  return rate > 0 ? fmt::format("{:.1f}", rate / 1e9) : std::string();
}

// The reader judges whether the ceilings can be trusted: other load of half a core may halve a
// probe on one thread, and not affect a GPU.
std::string beside_load(const Roofline& roofline) {
  if (roofline.load <= 0 || roofline.cores <= 0) return {};
  return fmt::format(", measured beside a load of {:.1f} on {} cores", roofline.load,
                     roofline.cores);
}

std::string read_rate(const Roofline& roofline, const std::string& level) {
  for (const MemoryCeiling& read : roofline.reads)
    if (read.level == level) return giga(read.rate);
  return {};
}

constexpr const char* kDtypes[] = {"fp32", "tf32", "fp16", "bf16", "fp8"};

}  // namespace

Table roofline_csv(std::span<const Record> records) {
  Table table{
      .title = "roofline",
      .columns = {"ceiling", "dtype", "level", "probe", "size", "buffer_bytes", "unit", "best",
                  "median", "burst", "spec", "share_of_spec", "clock_mhz", "status", "error"}};
  for (const Record& record : records) {
    if (record.study != "roofline") continue;
    const Json metrics =
        record.status == Status::ok ? record.metrics.value_or(Json::object()) : Json::object();
    const bool compute = text_of(record.workload, "ceiling") == "compute";
    const std::string unit = compute ? "gflops_per_s" : "gb_per_s";
    const std::string best = number_at(metrics, unit), spec = number_at(metrics, "spec_" + unit);
    const bool both = !best.empty() && !spec.empty();
    table.rows.push_back(
        {text_of(record.workload, "ceiling"), text_of(record.workload, "dtype"),
         text_of(record.workload, "level"), record.implementation, text_of(record.workload, "size"),
         text_of(record.workload, "buffer_bytes"), unit, best, number_at(metrics, "median_" + unit),
         number_at(metrics, "burst_" + unit), spec,
         both ? fmt::format("{:.4g}",
                            metrics[unit].get<double>() / metrics["spec_" + unit].get<double>())
              : std::string(),
         record.device_after && record.device_after->clock_mhz
             ? fmt::format("{:.0f}", *record.device_after->clock_mhz)
             : std::string(),
         std::string(status_csv_word(record.status)), record.error});
  }
  return table;
}

Table compute_ceilings(const Roofline& roofline) {
  Table table{
      .title = fmt::format("compute ceilings of {}{}", roofline.title, beside_load(roofline)),
      .columns = {"dtype", "GFLOP/s", "by", "burst", "on paper", "% of paper", "ridge FLOP/byte"},
      .rows = {},
      .spare = {"burst", "on paper", "by"}};
  for (const ComputeCeiling& ceiling : roofline.compute) {
    const std::optional<double> ridge = roofline.ridge(ceiling.dtype);
    table.rows.push_back({ceiling.dtype, giga(ceiling.rate), ceiling.probe, giga(ceiling.burst),
                          giga(ceiling.spec), share(ceiling.rate, ceiling.spec),
                          ridge ? fmt::format("{:.1f}", *ridge) : std::string()});
  }
  return table;
}

Table memory_ceilings(const Roofline& roofline) {
  Table table{
      .title = "memory ceilings, bytes read and written",
      .columns = {"level", "holds", "GB/s", "by", "on paper", "% of paper", "GB/s read alone"}};
  for (const MemoryCeiling& ceiling : roofline.memory)
    table.rows.push_back({ceiling.level,
                          ceiling.capacity > Bytes{} ? to_string(ceiling.capacity) : std::string(),
                          giga(ceiling.rate), ceiling.probe, giga(ceiling.spec),
                          share(ceiling.rate, ceiling.spec), read_rate(roofline, ceiling.level)});
  return table;
}

Table gpu_spec_table(std::span<const GpuSpec> specs) {
  Table table{.title = "data sheets: dense TFLOP/s, and the ridge in FLOP/byte",
              .columns = {"GPU", "memory GB", "GB/s"}};
  for (const char* dtype : kDtypes) table.columns.emplace_back(dtype);
  for (const char* dtype : kDtypes) {
    table.columns.emplace_back(fmt::format("ridge {}", dtype));
    table.spare.insert(table.spare.begin(), table.columns.back());
  }
  for (const GpuSpec& spec : specs) {
    std::vector<std::string> row = {std::string(spec.name),
                                    fmt::format("{:g}", spec.memory_gigabytes),
                                    fmt::format("{:g}", spec.gigabytes_per_s)};
    for (const char* dtype : kDtypes) {
      const double peak = dense_tflops(spec, dtype);
      row.push_back(peak > 0 ? fmt::format("{:g}", peak) : std::string());
    }
    for (const char* dtype : kDtypes) {
      const std::optional<double> ridge = ridge_point(spec, dtype);
      row.push_back(ridge ? fmt::format("{:.1f}", *ridge) : std::string());
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table roofline_points(std::span<const RooflinePoint> points) {
  Table table{.title =
                  "measured ops on the roofline, by the FLOPs that are done (an FMA as two); "
                  "the tables of the studies count by convention",
              .columns = {"study", "op", "phase", "dtype", "arithmetic", "FLOP/byte",
                          "done GFLOP/s", "roof GFLOP/s", "% of roof", "in", "bound by"},
              .rows = {},
              .spare = {"roof GFLOP/s", "study", "in", "arithmetic", "FLOP/byte", "dtype"}};
  for (const RooflinePoint& point : points)
    table.rows.push_back({point.record->study, point.workload, point.phase, point.dtype, point.path,
                          fmt::format("{:.3g}", point.intensity), giga(point.rate),
                          giga(point.attainable), fmt::format("{:.1f}", 100 * point.share),
                          point.level, std::string(name(point.bound))});
  return table;
}

std::string roofline_plot(const Roofline& roofline, std::string_view path,
                          std::span<const RooflinePoint> points) {
  constexpr int kWidth = 64, kHeight = 16;
  const auto first = std::find_if(points.begin(), points.end(),
                                  [&](const RooflinePoint& point) { return point.path == path; });
  const MemoryCeiling* slope = roofline.main_memory();
  if (first == points.end() || slope == nullptr) return {};
  const double top = first->ceiling, ridge = top / slope->rate;
  double left = ridge / 64, right = ridge * 64;
  double low = top / 4096, high = top * 2;
  for (const RooflinePoint& point : points) {
    if (point.path != path) continue;
    left = std::min(left, point.intensity / 1.5);
    right = std::max(right, point.intensity * 1.5);
    low = std::min(low, point.rate / 1.5);
    high = std::max(high, point.rate * 1.5);
  }
  std::vector<std::string> lines(kHeight, std::string(kWidth, ' '));
  // The position of `value` between two others on a logarithmic axis of so many cells; values
  // without a position, such as infinity, go to an end.
  const auto cell_of = [](double value, double least, double most, int cells) {
    const double at = cells * std::log(value / least) / std::log(most / least);
    return at >= 0 ? static_cast<int>(std::min(at, cells - 1.0)) : 0;
  };
  const auto column = [&](double intensity) { return cell_of(intensity, left, right, kWidth); };
  const auto row = [&](double rate) { return kHeight - 1 - cell_of(rate, low, high, kHeight); };
  for (int x = 0; x < kWidth; ++x) {
    const double intensity = left * std::pow(right / left, (x + 0.5) / kWidth);
    const double roof = std::min(top, intensity * slope->rate);
    if (roof < low) continue;
    lines[static_cast<size_t>(row(roof))][static_cast<size_t>(x)] = intensity < ridge ? '/' : '-';
  }
  std::string legend;
  int count = 0;
  constexpr std::string_view kMarks = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  for (const RooflinePoint& point : points) {
    if (point.path != path) continue;
    const char mark = kMarks[static_cast<size_t>(count++) % kMarks.size()];
    char& at =
        lines[static_cast<size_t>(row(point.rate))][static_cast<size_t>(column(point.intensity))];
    at = at == ' ' || at == '/' || at == '-' ? mark : '*';
    legend += fmt::format("  {} {} {}\n", mark, point.workload, point.phase);
  }
  std::string text =
      fmt::format("{} of {}: GFLOP/s against FLOP/byte, both logarithmic\n", path, roofline.title);
  for (int y = 0; y < kHeight; ++y) {
    const std::string rate = y == 0             ? giga(high)
                             : y == kHeight - 1 ? fmt::format("{:.3g}", low / 1e9)
                                                : std::string();
    text += fmt::format("{:>10} |{}\n", rate, lines[static_cast<size_t>(y)]);
  }
  text += fmt::format("{:>10} +{}\n{:>12}{:<{}.3g}{:>8.3g}   (ridge {:.3g}; * several)\n", "",
                      std::string(kWidth, '-'), "", left, kWidth - 8, right, ridge);
  return text + legend;
}

}  // namespace ridgeline
