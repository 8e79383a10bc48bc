#include "measure/row_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/printable.h"
#include "measure/record_text.h"

namespace ridgeline {
namespace {

std::string describe(const Record& record) {
  return printable(fmt::format("{} {}", record.study, record.implementation), 60) +
         values_text(record.workload);
}

// Returns "threads 1 against 2", or an empty string. A setting that only one side has counts as a
// difference unless the implementations differ.
std::string setting_difference(const Record& base, const Record& next) {
  const bool same_kind = base.implementation == next.implementation;
  for (const auto& [key, value] : base.settings.items()) {
    const Json* other = next.settings.find_key(key);
    if (other ? *other != value : same_kind)
      return fmt::format("{} {} against {}", printable(key, 40), value_text(value),
                         other ? value_text(*other) : "none");
  }
  for (const auto& [key, value] : next.settings.items())
    if (same_kind && !base.settings.contains(key))
      return fmt::format("{} none against {}", printable(key, 40), value_text(value));
  return {};
}

// Rows by key, and the keys in the order of their first rows.
struct Keyed {
  std::vector<std::string> order;
  std::map<std::string, const Record*> by_key;
};

template <class KeyOf>
Keyed keyed(std::span<const Record> records, const KeyOf& key_of) {
  Keyed out;
  for (const Record& record : records)
    if (const auto key = key_of(record)) {
      if (!out.by_key.contains(*key)) out.order.push_back(*key);
      out.by_key[*key] = &record;
    }
  return out;
}

std::span<const std::string> axes_of(const Record& record, const StudyAxes& axes) {
  auto found = axes.find(record.study);
  if (found == axes.end()) found = axes.find("");
  if (found == axes.end()) return {};
  return found->second;
}

// The key by which rows are paired; nullopt if the row is not of `implementation`. It includes all
// settings or only the axes, and omits the implementation if one is given.
std::optional<std::string> row_key(const Record& record, bool with_settings, const StudyAxes& axes,
                                   const std::optional<std::string>& implementation) {
  if (implementation && record.implementation != *implementation) return std::nullopt;
  Record key;
  key.study = record.study;
  key.device = record.device;
  key.workload = record.workload;
  if (!implementation) key.implementation = record.implementation;
  if (with_settings) {
    key.settings = record.settings;
    return workload_key(key);
  }
  for (const std::string& axis : axes_of(record, axes))
    if (record.settings.contains(axis)) key.settings[axis] = record.settings[axis];
  return workload_key(key);
}

void add_lines(const Record& base, const Record& next, RowPairs& out) {
  bool any = false;
  for (const Series& series : base.series) {
    if (!is_compared(series.name)) continue;
    if (next.find_series(series.name)) {
      out.lines.push_back({&base, &next, series.name});
      any = true;
    } else if (base.status == Status::ok && next.status == Status::ok) {
      out.missing.push_back(fmt::format("{} of {}", printable(series.name, 40), describe(base)));
    }
  }
  // A row that was not timed on one side is still reported.
  if (!any) out.lines.push_back({&base, &next, ""});
}

}  // namespace

size_t measured_in(std::span<const RowPair> lines) {
  return static_cast<size_t>(std::count_if(lines.begin(), lines.end(),
                                           [](const RowPair& line) { return line.is_measured(); }));
}

RowPairs pair_rows(std::span<const Record> base, std::span<const Record> next,
                   const CompareOptions& options) {
  std::optional<std::string> old_name, new_name;
  if (options.implementations) std::tie(old_name, new_name) = *options.implementations;
  const auto side = [&](std::span<const Record> records, const std::optional<std::string>& name,
                        bool with_settings) {
    return keyed(records,
                 [&](const Record& r) { return row_key(r, with_settings, options.axes, name); });
  };
  const Keyed before = side(base, old_name, true), after = side(next, new_name, true),
              loose_after = side(next, new_name, false);
  RowPairs out;
  for (const std::string& key : before.order) {
    const Record* record = before.by_key.at(key);
    const auto exact = after.by_key.find(key);
    const auto loose = loose_after.by_key.find(*row_key(*record, false, options.axes, old_name));
    if (exact != after.by_key.end())
      add_lines(*record, *exact->second, out);
    else if (loose != loose_after.by_key.end())
      add_lines(*record, *loose->second, out);
    else
      out.missing.push_back(describe(*record));
  }
  return out;
}

void refuse_nothing_to_compare(const RowPairs& pairs, std::span<const Record> base,
                               std::span<const Record> next, const CompareOptions& options) {
  if (!pairs.lines.empty()) return;
  const auto example = [&](std::span<const Record> side, auto which) -> std::string {
    for (const Record& record : side)
      if (!options.implementations || record.implementation == (*options.implementations).*which)
        return describe(record);
    return "none";
  };
  using Names = std::pair<std::string, std::string>;
  throw Error(ErrorKind::usage,
              fmt::format("no row is in both: the base has {}, the new side {}",
                          example(base, &Names::first), example(next, &Names::second)),
              "give results of the same study and sizes; --impl A,B compares implementations");
}

std::vector<std::string> check_comparable(std::span<const RowPair> lines, bool force) {
  std::vector<std::string> notes;
  const auto differ = [&](const std::string& what, const std::string& next_step) {
    if (!force) throw Error(ErrorKind::usage, what, next_step);
    if (std::find(notes.begin(), notes.end(), what) == notes.end()) notes.push_back(what);
  };
  for (const RowPair& line : lines) {
    const MachineFacts &base = line.base->machine, &next = line.next->machine;
    if (base.fingerprint != next.fingerprint)
      differ(fmt::format("the two sides ran on different machines: '{}' ({}) and '{}' ({})",
                         printable(base.cpu_model, 60), printable(base.fingerprint, 20),
                         printable(next.cpu_model, 60), printable(next.fingerprint, 20)),
             "measure both on one machine, or compare anyway with --force");
    if (const std::string difference = setting_difference(*line.base, *line.next);
        !difference.empty())
      differ(fmt::format("the two sides have different settings: {} ({})", difference,
                         describe(*line.base)),
             "run both with the same flags, or compare anyway with --force");
  }
  return notes;
}

}  // namespace ridgeline
