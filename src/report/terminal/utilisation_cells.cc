#include "report/terminal/utilisation_cells.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "report/record_cells.h"
#include "report/terminal/busy_cells.h"

namespace ridgeline {
namespace {

constexpr size_t kLongestReason = 400;
constexpr const char* kWholeSource = "NVML utilization.gpu";

const Json* member(const Json* object, std::string_view key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  return object->find_key(key);
}

std::string number(const Json* utilization, const char* name, const char* format, double factor) {
  return utilization ? cell(number_in(*utilization, name), format, factor) : "";
}

}  // namespace

const Json* utilization_in(const Record& record, std::string_view series) {
  if (record.status != Status::ok || !record.metrics) return nullptr;
  const Json* of = series.empty() ? &*record.metrics : member(&*record.metrics, series);
  const Json* found = member(of, "utilization");
  return found && found->is_object() ? found : nullptr;
}

std::vector<std::string> utilisation_csv(const Json* utilization) {
  return {number(utilization, "sm_active", "{:.6g}", 100),
          number(utilization, "tensor_active", "{:.6g}", 100),
          number(utilization, "dram_bytes_per_s", "{:.6g}", 1),
          utilization ? text_of(*utilization, "source") : ""};
}

std::vector<std::string> utilisation_cells(const Json* utilization) {
  return {number(utilization, "sm_active", "{:.1f}", 100),
          number(utilization, "tensor_active", "{:.1f}", 100),
          number(utilization, "dram_bytes_per_s", "{:.1f}", 1e-9)};
}

void insert_utilisation(Table& table, std::span<const Json* const> utilizations) {
  constexpr const char* kPeak = "peak %";
  std::vector<std::vector<std::string>> cells;
  bool tells = false;
  for (const Json* of : utilizations) {
    cells.push_back(utilisation_cells(of));
    tells = tells || !cells.back()[0].empty();
  }
  if (!tells) return;
  const std::vector<std::string> kept = table.spare;
  insert_after(table, kPeak, {kUtilisationColumns.begin(), kUtilisationColumns.end()}, cells);
  // A narrow screen leaves them out before the share of the peak.
  table.spare = kept;
  table.spare.insert(std::ranges::find(table.spare, kPeak), kUtilisationColumns.rbegin(),
                     kUtilisationColumns.rend());
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

std::vector<std::string> utilisation_notes(std::span<const Json* const> utilizations) {
  std::vector<std::string> notes;
  const auto add = [&](std::string note) {
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
  };
  for (const Json* of : utilizations) {
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
