#include "studies/precision/training_rows.h"

#include <fmt/format.h>

#include <cmath>

#include "report/page/axis.h"
#include "report/record_cells.h"

namespace ridgeline {
namespace {

// The interval in steps between the losses that the table and the chart show.
constexpr size_t kTableSteps = 50, kChartSteps = 10;

const TrainingRow* find(const std::vector<TrainingRow>& rows, std::string_view variant) {
  for (const TrainingRow& row : rows)
    if (row.record->implementation == variant && !row.losses.empty()) return &row;
  return nullptr;
}

std::string beside_fp32(const TrainingRow& row, const TrainingRow& full) {
  return fmt::format("{:+.2g} %", 100 * (row.losses.back() / full.losses.back() - 1));
}

}  // namespace

std::vector<TrainingRow> training_rows(const RecordRefs& records) {
  std::vector<TrainingRow> rows;
  for (const Record* record : rows_of_study(records, "precision")) {
    if (text_of(record->workload, "part") != "training" || !record->metrics) continue;
    TrainingRow& row = rows.emplace_back();
    row.record = record;
    const Json& metrics = *record->metrics;
    if (const Json* losses = metrics.find_key("losses"); losses && losses->is_array())
      for (const Json& loss : *losses)
        row.losses.push_back(loss.is_number() ? loss.get<double>() : std::nan(""));
    row.loss_scale = number_in(metrics, "loss_scale");
    row.skipped_steps = number_in(metrics, "skipped_steps");
    const Json* flushed = metrics.find_key("underflow");
    if (flushed == nullptr || !flushed->is_object()) continue;
    row.flushed_tensor = text_of(*flushed, "tensor");
    row.flushed_share = number_in(*flushed, "share");
  }
  if (const TrainingRow* full = find(rows, "fp32"))
    for (TrainingRow& row : rows)
      if (&row != full && !row.losses.empty())
        row.loss_error = std::abs(row.losses.back() / full->losses.back() - 1);
  return rows;
}

Table training_table(const RecordRefs& records) {
  Table table{.title =
                  "a tiny model in training: the loss before each of these steps; gradients "
                  "that fp16 flushes to 0 without a scale, after the last",
              .columns = {"training"}};
  const std::vector<TrainingRow> rows = training_rows(records);
  const TrainingRow* full = find(rows, "fp32");
  size_t longest = 0;
  for (const TrainingRow& row : rows) longest = std::max(longest, row.losses.size());
  for (size_t step = 0; step < longest; step += kTableSteps)
    table.columns.push_back(fmt::format("step {}", step));
  for (const char* column : {"beside fp32", "loss scale", "skipped", "gradient", "flushed %"})
    table.columns.emplace_back(column);
  for (const TrainingRow& row : rows) {
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells.push_back(row.record->implementation);
    for (size_t step = 0; step < longest; step += kTableSteps)
      cells.push_back(step < row.losses.size() ? cell(row.losses[step], "{:.4g}") : "");
    cells.push_back(full && &row != full && !row.losses.empty() ? beside_fp32(row, *full) : "");
    cells.push_back(cell(row.loss_scale, "{:.6g}"));
    cells.push_back(cell(row.skipped_steps, "{:.0f}"));
    cells.push_back(row.flushed_tensor);
    cells.push_back(cell(row.flushed_share, "{:.1f}", 100));
  }
  return table;
}

std::vector<std::string> training_notes(const RecordRefs& records) {
  const std::vector<TrainingRow> rows = training_rows(records);
  const TrainingRow *full = find(rows, "fp32"), *scaled = find(rows, "fp16-scaled"),
                    *unscaled = find(rows, "fp16-unscaled"), *bf16 = find(rows, "bf16");
  if (full == nullptr || scaled == nullptr || unscaled == nullptr) return {};
  const double batches = number_in(full->record->workload, "micro_batches").value_or(1);
  std::vector<std::string> notes;
  notes.push_back(fmt::format(
      "Loss scaling: after {} steps the loss is {:.4g} in fp32, {:.4g} ({}) in fp16 with dynamic "
      "loss scaling and {:.4g} ({}) in fp16 without{}",
      full->losses.size() - 1, full->losses.back(), scaled->losses.back(),
      beside_fp32(*scaled, *full), unscaled->losses.back(), beside_fp32(*unscaled, *full),
      bf16 ? fmt::format("; bf16, which has fp32's range, ends at {:.4g} ({}) without a scale",
                         bf16->losses.back(), beside_fp32(*bf16, *full))
           : ""));
  if (unscaled->flushed_share)
    notes.push_back(fmt::format(
        "Why fp16 needs it: the loss is divided by the {:.0f} micro-batches of a batch, so its "
        "gradients are small, and below 2^-25 fp16 has nothing but 0: without a scale {:.0f} % of "
        "{} are 0 that are not with one",
        batches, 100 * *unscaled->flushed_share, unscaled->flushed_tensor));
  return notes;
}

Chart training_chart(const ReportContext& context, const RecordRefs& records) {
  Chart chart{.id = "precision-training",
              .title = "Loss in training",
              .description =
                  "The loss of a tiny model by step, a line per precision; the loss is "
                  "on a logarithmic axis."};
  std::vector<double> steps, losses;
  for (const TrainingRow& row : training_rows(records)) {
    ChartSeries line{.name = shown(row.record->implementation, 40),
                     .colour = context.colour(row.record->implementation)};
    for (size_t step = 0; step < row.losses.size(); step += kChartSteps) {
      const double loss = row.losses[step];
      if (!std::isfinite(loss) || loss <= 0) continue;
      line.points.push_back({static_cast<double>(step), loss, fmt::format("{:.4g}", loss)});
      steps.push_back(static_cast<double>(step));
      losses.push_back(loss);
    }
    if (!line.points.empty() && chart.series.size() < kMostImplementations)
      chart.series.push_back(std::move(line));
  }
  if (chart.series.empty()) return chart;
  chart.x = linear_axis("step", Quantity::length, steps);
  chart.y = log_axis("loss", Quantity::intensity, losses, Better::lower);
  return chart;
}

}  // namespace ridgeline
