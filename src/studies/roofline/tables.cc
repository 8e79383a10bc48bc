#include "studies/roofline/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/record_columns.h"

namespace ridgeline {
namespace {

const char* unit_of(const Record& record) {
  return text_of(record.workload, "ceiling") == "compute" ? "gflops_per_s" : "gb_per_s";
}

// A rate of a row that is ok: "best" is without a prefix.
std::optional<double> rate_of(const Record& record, const char* prefix) {
  const std::string name = std::string(prefix) + unit_of(record);
  return record.status == Status::ok ? metric_number(record, name.c_str()) : std::nullopt;
}

RecordCell rate_cell(const char* prefix) {
  return [=](const RecordRow& row) { return cell(rate_of(*row.record, prefix)); };
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

Table roofline_csv(const RecordRefs& records) {
  return table_of<RecordRow>(
      "roofline",
      {{"ceiling", workload_cell("ceiling")},
       {"dtype", workload_cell("dtype")},
       {"level", workload_cell("level")},
       {"probe", implementation_cell},
       {"size", workload_cell("size")},
       {"buffer_bytes", workload_cell("buffer_bytes")},
       {"unit", [](const RecordRow& row) { return std::string(unit_of(*row.record)); }},
       {"best", rate_cell("")},
       {"median", rate_cell("median_")},
       {"burst", rate_cell("burst_")},
       {"spec", rate_cell("spec_")},
       {"share_of_spec",
        [](const RecordRow& row) {
          const auto best = rate_of(*row.record, ""), spec = rate_of(*row.record, "spec_");
          return best && spec ? cell(*best / *spec, "{:.4g}") : std::string();
        }},
       {"clock_mhz",
        [](const RecordRow& row) {
          const auto& after = row.record->device_after;
          return after ? cell(after->clock_mhz, "{:.0f}") : std::string();
        }},
       {"status", status_cell},
       {"error", error_cell}},
      record_rows(rows_of_study(records, "roofline")));
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
              .spare = {"roof GFLOP/s", "study", "in", "arithmetic", "FLOP/byte", "dtype"},
              .axes = {"study", "dtype"}};
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
