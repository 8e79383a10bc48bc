// Report section: attention's memory against the sequence length, by tensor, and where it runs out.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/sort_by.h"
#include "report/page/axis.h"
#include "report/page/points.h"
#include "studies/attention/tables.h"
#include "studies/attention/workload.h"
#include "studies/memory/attention.h"

namespace ridgeline {
namespace {

std::optional<double> peak_of(const Record& record) {
  if (record.status != Status::ok || !record.memory.peak) return std::nullopt;
  return static_cast<double>(record.memory.peak->count);
}

std::optional<double> needed_by(const Record& record) {
  if (record.status != Status::oom || !record.memory.predicted_peak) return std::nullopt;
  return static_cast<double>(record.memory.predicted_peak->count);
}

Chart memory_chart(const ReportContext& context, const LengthGroup& group) {
  Chart chart{.id = "memory",
              .title = "Peak memory",
              .description =
                  "Peak memory of tensors against the sequence length, both axes "
                  "logarithmic; crosses are sizes that do not fit, at what their graphs need."};
  std::vector<double> xs, ys;
  const auto add = [&](const std::string& name, ChartSeries::Mark mark, const char* suffix,
                       auto value) {
    ChartSeries series{.name = name + suffix, .mark = mark};
    for (const LengthRow& row : group.rows) {
      const auto bytes = row.implementation == name ? value(*row.record) : std::nullopt;
      if (!bytes || *bytes <= 0) continue;
      series.colour = context.colour(row.record->implementation);
      series.implementation = shown(row.record->implementation, 60);
      const auto x = static_cast<double>(row.seq_len);
      series.points.push_back(
          {x, *bytes,
           fmt::format("S {}, {}", row.seq_len, quantity_text(Quantity::bytes, *bytes))});
      xs.push_back(x);
      ys.push_back(*bytes);
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  };
  for (const std::string& name : group.implementations) {
    add(name, ChartSeries::Mark::line_and_points, "", peak_of);
    add(name, ChartSeries::Mark::crosses, ": would not fit (predicted)", needed_by);
  }
  chart.x = log_axis("sequence length", Quantity::length, xs);
  chart.y = log_axis("peak memory of tensors", Quantity::bytes, ys, Better::lower);
  return chart;
}

// The length at which tensors are shown: the shortest that did not fit, else the longest.
int64_t shown_length(const LengthGroup& group) {
  for (const LengthRow& row : group.rows)
    if (row.record->status == Status::oom) return row.seq_len;
  return group.rows.back().seq_len;
}

// The tensors that are live at an attention row's peak, from its graph.
std::vector<MemoryItem> tensors_at_peak(const Record& record) {
  try {
    const auto config = attention_config_of(record);
    if (!config) return {};
    const AttentionImplementation& implementation =
        find_attention_implementation(record.implementation);
    if (info(implementation.mode).fuse)
      return {};  // the compiler does not store all tensors of the graph
    return account_attention(*config, implementation.form).at_peak;
  } catch (const Error&) {
    return {};  // an unknown dtype or implementation, of another program
  }
}

Chart tensors_chart(const LengthGroup& group) {
  const int64_t length = shown_length(group);
  Chart chart{.kind = Chart::Kind::stacked_bars,
              .id = "memory-by-tensor",
              .title = fmt::format("Memory by tensor at S {}", length),
              .description = fmt::format("What each tensor holds in the worst moment at sequence "
                                         "length {}, computed from the graph.",
                                         length)};
  std::vector<double> totals;
  for (const std::string& name : group.implementations) {
    const Record* record = group.find(name, length);
    if (!record) continue;
    std::vector<MemoryItem> tensors = tensors_at_peak(*record);
    if (tensors.empty()) continue;
    Bytes sum;
    for (const MemoryItem& tensor : tensors) sum += tensor.bytes;
    if (record->memory.predicted_peak && *record->memory.predicted_peak > sum)
      tensors.push_back({"scratch of kernels", *record->memory.predicted_peak - sum});
    const auto category = static_cast<double>(chart.categories.size());
    chart.categories.push_back(name + (record->status != Status::oom ? ""
                                       : was_tried(*record)          ? " (did not fit)"
                                                                     : " (would not fit)"));
    double total = 0;
    for (const MemoryItem& tensor : tensors) {
      const auto colour = static_cast<int>(chart.series.size());
      ChartSeries* series = tensor_series(chart, tensor.name, colour);
      const auto bytes = static_cast<double>(tensor.bytes.count);
      series->points.push_back(
          {category, bytes, fmt::format("{} of {}", quantity_text(Quantity::bytes, bytes), name)});
      total += bytes;
    }
    totals.push_back(total);
  }
  chart.y = linear_axis("memory in the worst moment", Quantity::bytes, totals, Better::lower);
  return chart;
}

// The longest sequence that ran and the shortest that did not fit, of one implementation.
struct LengthFrontier {
  const LengthGroup* group = nullptr;
  std::string implementation;
  const Record* fits = nullptr;
  const Record* fails = nullptr;
  int64_t fits_length = 0;
  int64_t fails_length = 0;
};

std::vector<LengthFrontier> frontiers(const LengthStudy& study) {
  std::vector<LengthFrontier> out;
  for (const LengthGroup& group : study.groups)
    for (const std::string& name : group.implementations) {
      LengthFrontier frontier{.group = &group, .implementation = name};
      for (const LengthRow& row : group.rows) {
        if (row.implementation != name) continue;
        if (row.record->status == Status::ok) {
          frontier.fits = row.record;
          frontier.fits_length = row.seq_len;
        } else if (row.record->status == Status::oom && !frontier.fails) {
          frontier.fails = row.record;
          frontier.fails_length = row.seq_len;
        }
      }
      if (frontier.fits || frontier.fails) out.push_back(frontier);
    }
  return out;
}

Chart frontier_chart(const LengthGroup& group, const std::vector<LengthFrontier>& all) {
  Chart chart{.kind = Chart::Kind::dots,
              .id = "oom-frontier",
              .title = "How far memory goes",
              .description =
                  "The longest sequence that ran and the shortest that does not fit, by "
                  "implementation; the axis is logarithmic."};
  const bool is_predicted = std::ranges::all_of(all, [](const LengthFrontier& frontier) {
    return !frontier.fails || !was_tried(*frontier.fails);
  });
  ChartSeries fits{.name = "ran up to", .colour = -1},
      fails{.name = is_predicted ? "would not fit at (predicted)" : "does not fit at",
            .mark = ChartSeries::Mark::crosses,
            .colour = -1};
  std::vector<double> values;
  for (const LengthFrontier& frontier : all) {
    if (frontier.group != &group) continue;
    const auto category = static_cast<double>(chart.categories.size());
    chart.categories.push_back(frontier.implementation);
    const auto add = [&](ChartSeries& series, int64_t length) {
      const auto value = static_cast<double>(length);
      series.points.push_back({category, value, fmt::format("S {}", length)});
      values.push_back(value);
    };
    if (frontier.fits) add(fits, frontier.fits_length);
    if (frontier.fails) add(fails, frontier.fails_length);
  }
  if (fails.points.empty()) return chart;  // all sizes fit: the other charts suffice
  chart.series = {std::move(fits), std::move(fails)};
  chart.y = log_axis("sequence length", Quantity::length, values, Better::higher);
  return chart;
}

ReportTable frontier_table(const std::vector<LengthFrontier>& all) {
  ReportTable table{.title = "Where memory ends",
                    .columns = {"setting", "implementation", "ran up to S", "peak there",
                                "does not fit at S", "would need", "known by"}};
  for (const LengthFrontier& frontier : all) {
    const auto bytes = [](const Record* record, auto value) {
      const auto count = record ? value(*record) : std::nullopt;
      return count ? ReportCell{quantity_text(Quantity::bytes, *count), *count} : ReportCell{};
    };
    const auto length = [](const Record* record, int64_t value) {
      return record ? ReportCell{fmt::to_string(value), static_cast<double>(value)} : ReportCell{};
    };
    table.rows.push_back({{frontier.group->name.empty() ? "all" : frontier.group->name, {}},
                          {frontier.implementation, {}},
                          length(frontier.fits, frontier.fits_length),
                          bytes(frontier.fits, peak_of),
                          length(frontier.fails, frontier.fails_length),
                          bytes(frontier.fails, needed_by),
                          {!frontier.fails              ? ""
                           : was_tried(*frontier.fails) ? "trying"
                                                        : "prediction",
                           {}}});
    const Record* behind = frontier.fails ? frontier.fails : frontier.fits;
    RowDetails details = {{"command", shown(behind->command, 2000)}};
    if (!behind->error.empty()) details.emplace_back("why", shown(behind->error, 1000));
    table.details.push_back(std::move(details));
  }
  return table;
}

// The largest tensors: "scores and weights (64.0 MiB each) and output (1.00 MiB)".
std::string largest_words(std::vector<MemoryItem> tensors) {
  constexpr size_t kMostNamed = 3;
  sort_by_falling(tensors, [](const MemoryItem& tensor) { return tensor.bytes.count; });
  if (tensors.size() > kMostNamed) tensors.resize(kMostNamed);
  std::vector<std::string> groups;
  for (size_t i = 0; i < tensors.size();) {
    std::vector<std::string> names;
    const Bytes bytes = tensors[i].bytes;
    for (; i < tensors.size() && tensors[i].bytes == bytes; ++i) names.push_back(tensors[i].name);
    groups.push_back(
        fmt::format("{} ({}{})", listed(names), to_string(bytes), names.size() > 1 ? " each" : ""));
  }
  return listed(groups);
}

bool all_ran(const LengthStudy& study) {
  return std::ranges::all_of(study.groups, [](const LengthGroup& group) {
    return std::ranges::all_of(
        group.rows, [](const LengthRow& row) { return row.record->status == Status::ok; });
  });
}

// Where memory runs out, which tensors take it, and which implementation needs the least there; if
// all sizes fit, the same at the longest length.
std::string memory_answer(const LengthStudy& study, const std::vector<LengthFrontier>& all) {
  const LengthFrontier* first = nullptr;
  for (const LengthFrontier& frontier : all)
    if (frontier.fails && (!first || frontier.fails_length < first->fails_length))
      first = &frontier;
  const LengthGroup& group = first ? *first->group : study.groups.front();
  const int64_t length = first ? first->fails_length : group.rows.back().seq_len;
  std::string text;
  const Record* told = first ? first->fails : nullptr;
  if (first) {
    const std::string place = place_of(group, length);
    if (was_tried(*told))
      text = fmt::format("{} does not fit at {}", first->implementation, place);
    else  // its error names the prediction and the budget
      text = fmt::format(
          "{} would not fit at {}: {}", first->implementation, place,
          shown(std::string_view(told->error).substr(0, told->error.size() - kNotTried.size()),
                160));
    if (const auto bytes = needed_by(*told); bytes && was_tried(*told))
      text += fmt::format(": it would need {}", quantity_text(Quantity::bytes, *bytes));
  }
  const Record* leanest = nullptr;
  for (const std::string& name : group.implementations) {
    const Record* record = group.find(name, length);
    if (!record || !peak_of(*record)) continue;
    if (!leanest || *peak_of(*record) < *peak_of(*leanest)) leanest = record;
    if (!told || *peak_of(*record) > peak_of(*told).value_or(0))
      if (!first) told = record;
  }
  if (!told) return {};
  if (!first)
    text = fmt::format("{} At {} {} needs most, {}",
                       all_ran(study) ? "All sizes fit." : "No size ran out of memory.",
                       place_of(group, length), shown(told->implementation, 40),
                       quantity_text(Quantity::bytes, *peak_of(*told)));
  const auto& quadratic = told->memory.predicted_quadratic;
  const auto& predicted = told->memory.predicted_peak;
  if (quadratic && predicted && predicted->count > 0)
    text += fmt::format(
        ", {:.0f} % of it in S x S tensors",
        100 * static_cast<double>(quadratic->count) / static_cast<double>(predicted->count));
  if (const std::string tensors = largest_words(tensors_at_peak(*told)); !tensors.empty())
    text += fmt::format(", the largest: {}", tensors);
  if (leanest && leanest != told)
    return fmt::format("{}. There {} needs {}.", text, shown(leanest->implementation, 40),
                       quantity_text(Quantity::bytes, *peak_of(*leanest)));
  return text + ".";
}

}  // namespace

ReportSection attention_memory_section(const ReportContext& context) {
  ReportSection section{.id = "memory",
                        .title = "Attention: memory",
                        .question = "Where does memory end, and which tensor takes it?"};
  const LengthStudy study = length_study(context, "attention");
  const std::vector<LengthFrontier> all = frontiers(study);
  for (const LengthGroup& group : study.groups) {
    if (section.views.size() == kMostViews) break;  // the section on time reports it
    ReportView view{.name = group.name, .pictures = 2};
    for (Chart& chart : std::vector{memory_chart(context, group), tensors_chart(group),
                                    frontier_chart(group, all)})
      if (!chart.series.empty()) view.charts.push_back(std::move(chart));
    if (!view.charts.empty()) section.views.push_back(std::move(view));
  }
  if (section.views.empty()) return section;
  section.answer = memory_answer(study, all);
  const bool ended = std::any_of(all.begin(), all.end(), [](const LengthFrontier& frontier) {
    return frontier.fails != nullptr;
  });
  const bool is_counted = std::ranges::any_of(all, [](const LengthFrontier& frontier) {
    return frontier.fails && !was_tried(*frontier.fails);
  });
  section.certainty = {
      .level = is_counted ? Certainty::Level::counted : Certainty::Level::measured,
      .why = is_counted ? "Predicted; peaks are the ledger's."
                        : "Peaks by the ledger; tensors, and what does not fit, by the graph."};
  if (ended) section.tables.push_back(frontier_table(all));
  return section;
}

}  // namespace ridgeline
