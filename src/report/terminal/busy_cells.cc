#include "report/terminal/busy_cells.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "report/record_cells.h"

namespace ridgeline {

std::optional<double> busy_ms(const Record* record, std::string_view series) {
  // A row that ran out of memory keeps the series that fitted.
  if (!record || (record->status != Status::ok && record->status != Status::oom))
    return std::nullopt;
  return metric_in(record->metrics, series, "busy_ms");
}

std::string host_bound_cell(const Record* record, std::string_view series) {
  if (!busy_ms(record, series)) return {};
  return text_of(*record->metrics->find_key(series), "host_bound");
}

bool is_host_bound(const Record* record, std::string_view series) {
  return host_bound_cell(record, series) == "True";
}

bool tells_busy_time(const RecordRefs& records, std::string_view study) {
  return std::ranges::any_of(records, [&](const Record* record) {
    return record->study == study && std::ranges::any_of(record->series, [&](const Series& series) {
             return busy_ms(record, series.name).has_value();
           });
  });
}

std::string host_bound_note(std::span<const Record* const> rows) {
  constexpr size_t kMostNamed = 4;
  size_t tell = 0, bound = 0;
  std::vector<std::string> named;
  for (const Record* record : rows) {
    if (record->status != Status::ok) continue;
    bool tells = false, is_bound = false;
    for (const Series& series : record->series) {
      tells = tells || busy_ms(record, series.name);
      if (!is_host_bound(record, series.name)) continue;
      is_bound = true;
      const std::string name =
          fmt::format("{} {}", printable(record->implementation, 40), printable(series.name, 40));
      if (std::find(named.begin(), named.end(), name) == named.end()) named.push_back(name);
    }
    tell += tells;
    bound += is_bound;
  }
  if (bound == 0) return {};
  std::string names;
  for (size_t i = 0; i < std::min(named.size(), kMostNamed); ++i)
    names += (i == 0 ? "" : ", ") + named[i];
  if (named.size() > kMostNamed) names += ", ...";
  return fmt::format(
      "Host-bound: in {} of {} rows the GPU waits for the host ({}), and the time is the host's; "
      "compare their busy times",
      bound, tell, names);
}

}  // namespace ridgeline
