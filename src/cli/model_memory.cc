#include "cli/model_memory.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/file_io.h"
#include "base/print.h"
#include "cli/build_facts.h"
#include "cli/interrupt.h"
#include "cli/sweep.h"
#include "studies/memory/model_analysis.h"
#include "studies/model/row.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

// Rows of one size, context and precision, which share a text.
using Group = std::vector<ModelMemoryRow>;

bool is_same_model(const ModelWorkload& a, const ModelWorkload& b) {
  return a.config.name == b.config.name && a.config.context_length == b.config.context_length &&
         a.precision == b.precision;
}

class ModelMemoryCommand {
 public:
  explicit ModelMemoryCommand(const ModelMemoryFlags& flags)
      : flags_(flags), device_(open_device(flags.device)) {
    optimizer_ = optimizer_of(flags.axes);
  }

  int run() {
    const std::vector<ModelWorkload> workloads = workloads_of(flags_.axes);
    for (size_t i = 0; i < workloads.size();) {
      Group group;
      for (const size_t first = i;
           i < workloads.size() && is_same_model(workloads[first], workloads[i]); ++i)
        for (const Scenario scenario : scenarios_of(flags_.axes))
          group.push_back(predict_memory(workloads[i], scenario, *device_, optimizer_));
      if (!measure(group)) return kInterruptedExit;
      show(group);
    }
    write_files();
    return 0;
  }

 private:
  // One step of each row that fits; the account stands without it. False: interrupted.
  bool measure(Group& group) {
    if (!flags_.measure || flags_.dry_run) return true;
    watch_for_interrupts();
    for (ModelMemoryRow& row : group) {
      if (row.memory.peak() > device_->ledger().budget()) continue;
      ModelStudy study(*device_, {.protocol = {.warmups = 0, .iterations = 1},
                                  .scenarios = {row.scenario},
                                  .optimizer = optimizer_,
                                  .verify = false,
                                  .interrupted = interrupted});
      const std::optional<Record> record =
          study.run(row.workload, study.describe(row.workload, {}));
      if (!record) return false;
      if (record->memory.peak)
        row.measured = MeasuredMemory{*record->memory.peak, record->memory.process_peak_growth,
                                      record->memory.driver_peak_growth};
      else
        say("{} was not measured: {}", label(row.workload), record->error);
    }
    return true;
  }

  void show(const Group& group) {
    const ModelWorkload& model = group.front().workload;
    const std::string analysis = model_memory_analysis(group, *device_, optimizer_);
    print("{}{}", rows_.empty() ? "" : "\n", analysis);
    rows_.insert(rows_.end(), group.begin(), group.end());
    if (flags_.dry_run) return;
    const fs::path path = fs::path(flags_.results_dir) / "model" /
                          fmt::format("memory_analysis_{}_c{}_{}.txt", model.config.name,
                                      model.config.context_length, info(model.precision).name);
    write_file_atomically(path, analysis);
    print("\nWritten to {}.\n", path.string());
  }

  void write_files() const {
    if (flags_.output.table.empty() && flags_.output.json.empty()) return;
    std::vector<Record> records;
    const Record blank = blank_record(*device_);
    for (const ModelMemoryRow& row : rows_) records.push_back(record_of(row, blank));
    write_output(flags_.output, records, model_memory_csv(rows_, device_->ledger().budget()));
  }

  // As the transformer study describes the row, with the account as its result.
  Record record_of(const ModelMemoryRow& row, const Record& blank) const {
    const ModelStudy study(*device_, {.scenarios = {row.scenario}, .optimizer = optimizer_});
    Record record = study.describe(row.workload, blank);
    record.study = "memory";
    record.time = utc_now();
    record.command = fmt::format("ridgeline memory{}{}{}", to_command(flags_.device, *device_),
                                 to_command(flags_.axes), to_command(row.workload));
    record.memory.predicted_peak = row.memory.peak();
    if (row.measured) {
      record.memory.peak = row.measured->peak;
      record.memory.process_peak_growth = row.measured->process_growth;
      record.memory.driver_peak_growth = row.measured->driver_growth;
    }
    record.metrics = {
        {"at_peak", at_peak_metrics(row.memory)},
        {"worst_moment", row.memory.worst_moment},
        {"saved_for_backward_bytes", row.memory.saved().count},
        {"gradients_after_backward_bytes", row.memory.after_backward[MemoryKind::gradients].count}};
    const Bytes budget = device_->ledger().budget();
    if (row.memory.peak() <= budget) return record;
    record.status = Status::oom;
    record.error = fmt::format("the predicted peak of {} is above the budget of {}; not tried",
                               to_string(row.memory.peak()), to_string(budget));
    return record;
  }

  const ModelMemoryFlags& flags_;
  const std::unique_ptr<Device> device_;
  AdamWOptions optimizer_;
  std::vector<ModelMemoryRow> rows_;
};

}  // namespace

int show_model_memory(const ModelMemoryFlags& flags) {
  const auto outputs = check_output(flags.output);
  return ModelMemoryCommand(flags).run();
}

}  // namespace ridgeline
