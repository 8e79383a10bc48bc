#include "report/terminal/utilisation_cells.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"

namespace ridgeline {
namespace {

constexpr size_t kLongestReason = 400;
constexpr const char* kWholeSource = "NVML utilization.gpu";

const Json* member(const Json* object, std::string_view key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  return object->find_key(key);
}

RecordCell utilisation_cell(const char* name, const char* format, double factor) {
  return [=](const RecordRow& row) {
    const Json* utilization = utilization_in(*row.record, row.series);
    return utilization ? cell(number_in(*utilization, name), format, factor) : std::string();
  };
}

}  // namespace

const Json* utilization_in(const Record& record, std::string_view series) {
  if (record.status != Status::ok || !record.metrics) return nullptr;
  const Json* of = series.empty() ? &*record.metrics : member(&*record.metrics, series);
  const Json* found = member(of, "utilization");
  return found && found->is_object() ? found : nullptr;
}

std::vector<RecordColumn> utilisation_csv_columns() {
  return {{"sm_active_pct", utilisation_cell("sm_active", "{:.6g}", 100)},
          {"tensor_active_pct", utilisation_cell("tensor_active", "{:.6g}", 100)},
          {"dram_bytes_per_s", utilisation_cell("dram_bytes_per_s", "{:.6g}", 1)},
          {"utilization_source", [](const RecordRow& row) {
             const Json* utilization = utilization_in(*row.record, row.series);
             return utilization ? text_of(*utilization, "source") : std::string();
           }}};
}

std::vector<RecordColumn> utilisation_columns(std::span<const RecordRow> rows) {
  const RecordCell active = utilisation_cell("sm_active", "{:.1f}", 100);
  if (std::ranges::all_of(rows, [&](const RecordRow& row) { return active(row).empty(); }))
    return {};
  return {{"SM %", active},
          {"tensor %", utilisation_cell("tensor_active", "{:.1f}", 100)},
          {"DRAM GB/s", utilisation_cell("dram_bytes_per_s", "{:.1f}", 1e-9)}};
}

std::string low_use_sentence(const Json* utilization, std::optional<double> busy_share) {
  constexpr double kLow = 0.5;
  const auto active = utilization ? number_in(*utilization, "sm_active") : std::optional<double>();
  if (!active || !busy_share || *active >= kLow || !(*busy_share > 0)) return {};
  const double busy = std::min(1.0, *busy_share);
  return fmt::format(
      "multiprocessors had a warp in {:.1f} % of cycles: kernels run in {:.0f} % of the time, and "
      "then on {:.1f} % of the multiprocessors in the mean; short kernels leave gaps between them, "
      "and those with few blocks leave multiprocessors empty",
      100 * *active, 100 * busy, 100 * std::min(1.0, *active / busy));
}

std::vector<std::string> utilisation_notes(std::span<const RecordRow> rows) {
  std::vector<std::string> notes;
  const auto add = [&](std::string note) { add_once(notes, std::move(note)); };
  for (const RecordRow& row : rows) {
    const Json* of = utilization_in(*row.record, row.series);
    if (of == nullptr) continue;
    const std::string source = printable(text_of(*of, "source"), kLongestReason);
    if (number_in(*of, "sm_active"))
      add(fmt::format(
          "SM %, tensor % and DRAM GB/s are measured by {}, in a loop of its own after the "
          "samples: the share of cycles in which a multiprocessor had a warp, that in which its "
          "tensor pipe worked, both as means of all multiprocessors, and what was read from and "
          "written to memory",
          source));
    else if (const auto share = number_in(*of, "any_kernel"))
      add(
          fmt::format("by {} some kernel ran in {:.0f} % of the time; how busy the "
                      "multiprocessors were is not known",
                      kWholeSource, 100 * *share));
    else
      add("how busy the GPU was is not known");
    const Json* passed_over = member(of, "passed_over");
    if (passed_over == nullptr || !passed_over->is_array()) continue;
    for (const Json& each : *passed_over)
      if (each.is_string())
        add("how busy the GPU was is not read by " + printable(each.text(), kLongestReason));
  }
  return notes;
}

}  // namespace ridgeline
