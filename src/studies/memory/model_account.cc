#include "studies/memory/model_account.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/print.h"
#include "studies/memory/model_analysis.h"
#include "studies/model/metrics.h"
#include "studies/model/row.h"
#include "studies/row.h"
#include "studies/shared_flags.h"

namespace ridgeline {
namespace {

// Rows of one size, context and precision, which one text describes.
using RowsOfModel = std::vector<ModelMemoryRow>;

bool is_same_model(const ModelWorkload& a, const ModelWorkload& b) {
  return a.config.name == b.config.name && a.config.context_length == b.config.context_length &&
         a.precision == b.precision;
}

class ModelAccounts {
 public:
  ModelAccounts(StudyRun& run, const ModelAxes& axes, const SharedFlags& shared, bool measures)
      : run_(run),
        axes_(axes),
        shared_(shared),
        measures_(measures),
        optimizer_(optimizer_of(axes)) {}

  void run() {
    const std::vector<ModelWorkload> workloads = workloads_of(axes_);
    for (size_t i = 0; i < workloads.size();) {
      RowsOfModel group;
      for (const size_t first = i;
           i < workloads.size() && is_same_model(workloads[first], workloads[i]); ++i)
        for (const Scenario scenario : scenarios_of(axes_))
          group.push_back(predict_memory(workloads[i], scenario, run_.device, optimizer_));
      if (measures_ && !shared_.dry_run) measure(group);
      show(group);
    }
    write_files();
  }

 private:
  // Runs one step of each row that fits the budget.
  void measure(RowsOfModel& group) {
    for (ModelMemoryRow& row : group) {
      if (row.memory.peak() > run_.device.ledger().budget()) continue;
      ModelStudy study(run_.device, {.row = {.protocol = {.warmups = 0, .iterations = 1},
                                             .verify = false,
                                             .interrupted = run_.interrupted},
                                     .scenarios = {row.scenario},
                                     .optimizer = optimizer_});
      const std::optional<Record> record =
          study.run(row.workload, study.describe(row.workload, {}));
      if (!record) throw Interrupted();
      if (record->memory.peak)
        row.measured = record->memory;
      else
        say("{} was not measured: {}", label(row.workload), record->error);
    }
  }

  void show(const RowsOfModel& group) {
    const ModelWorkload& model = group.front().workload;
    const std::string analysis = model_memory_analysis(group, run_.device, optimizer_);
    print("{}{}", rows_.empty() ? "" : "\n", analysis);
    rows_.insert(rows_.end(), group.begin(), group.end());
    if (shared_.dry_run) return;
    const std::filesystem::path path =
        run_.results_dir / "model" /
        fmt::format("memory_analysis_{}_c{}_{}.txt", model.config.name, model.config.context_length,
                    info(model.precision).name);
    write_file_atomically(path, analysis);
    print("\nWritten to {}.\n", path.string());
  }

  void write_files() const {
    std::vector<Record> records;
    for (const ModelMemoryRow& row : rows_) records.push_back(record_of(row));
    write_output(shared_.output, records, model_memory_csv(rows_, run_.device.ledger().budget()));
  }

  // The row as the model study describes it, with the account as its result.
  Record record_of(const ModelMemoryRow& row) const {
    const ModelStudy study(run_.device, {.scenarios = {row.scenario}, .optimizer = optimizer_});
    Record record = study.describe(row.workload, run_.blank);
    record.study = "memory";
    record.time = utc_now();
    record.command =
        fmt::format("ridgeline memory{}{}{}{}", run_.device_words, measures_ ? " --measure" : "",
                    to_command(axes_, row.workload.precision), to_command(row.workload));
    record.memory.predicted_peak = row.memory.peak();
    record.memory.peak = row.measured.peak;
    record.memory.process_peak_growth = row.measured.process_peak_growth;
    record.memory.driver_peak_growth = row.measured.driver_peak_growth;
    record.metrics = {
        {"at_peak", at_peak_metrics(row.memory)},
        {"worst_moment", row.memory.peak_moment},
        {"saved_for_backward_bytes", row.memory.saved().count},
        {"gradients_after_backward_bytes", row.memory.after_backward[MemoryKind::gradients].count}};
    mark_above_budget(record, run_.device);
    return record;
  }

  StudyRun& run_;
  const ModelAxes& axes_;
  const SharedFlags& shared_;
  const bool measures_;
  const AdamWOptions optimizer_;
  std::vector<ModelMemoryRow> rows_;
};

}  // namespace

void account_models(StudyRun& run, const ModelAxes& axes, const SharedFlags& shared, bool measure) {
  ModelAccounts(run, axes, shared, measure).run();
}

void mark_above_budget(Record& record, const Device& device) {
  try {
    expect_within_budget(*record.memory.predicted_peak, device);
  } catch (const Error& error) {
    record.status = Status::oom;
    record.error = error.message();
  }
}

}  // namespace ridgeline
