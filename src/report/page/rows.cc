#include "report/page/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <unordered_map>

#include "base/printable.h"
#include "base/sort_by.h"
#include "report/page/palette.h"
#include "report/page/roofline_dots.h"
#include "report/record_cells.h"

namespace ridgeline {
namespace {

// One part of the name of a group of rows; kParts has them in the order of the name.
struct Part {
  std::string (*text)(const Record&);
};

std::string prefixed(const char* prefix, const std::string& text) {
  return text.empty() ? std::string() : prefix + text;
}

std::string device_text(const Record& record) {
  if (record.machine.gpu && !record.machine.gpu->model.empty())
    return shown(record.machine.gpu->model, 40);
  if (record.device == "cpu")
    return record.machine.cpu_model.empty() ? "CPU" : shown(record.machine.cpu_model, 60);
  return shown(record.device, 40);
}

constexpr Part kParts[] = {
    {device_text},
    {[](const Record& r) { return prefixed("machine ", shown(r.machine.fingerprint, 16)); }},
    {[](const Record& r) { return text_at(r.settings, "threads"); }},
    {[](const Record& r) { return text_at(r.settings, "isa"); }},
    {[](const Record& r) { return prefixed("tune ", text_at(r.settings, "tune")); }},
    {[](const Record& r) { return text_at(r.workload, "dtype"); }},
    {[](const Record& r) {
      const std::string causal = text_at(r.workload, "causal");
      return std::string(causal == "True" ? "causal" : causal == "False" ? "not causal" : "");
    }},
    {[](const Record& r) { return prefixed("batch ", text_at(r.workload, "batch_size")); }},
    {[](const Record& r) { return prefixed("heads ", text_at(r.workload, "heads")); }},
    {[](const Record& r) {
      const std::string width = text_at(r.workload, "d_model");
      return prefixed("d ", width.empty() ? text_at(r.workload, "head_dim") : width);
    }},
    {[](const Record& r) { return text_at(r.settings, "mode"); }},
};
constexpr size_t kThreads = 2;  // index of the threads in kParts, written as "2 threads"

std::vector<std::string> parts_of(const Record& record) {
  std::vector<std::string> parts;
  for (const Part& part : kParts) parts.push_back(part.text(record));
  if (!parts[kThreads].empty()) parts[kThreads] += parts[kThreads] == "1" ? " thread" : " threads";
  return parts;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    if (!word.empty()) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Splits the parts into those that all groups share and those that name a group.
void name_groups(LengthStudy& study) {
  std::vector<std::string> shared;
  for (size_t i = 0; i < std::size(kParts); ++i) {
    std::set<std::string> distinct;
    for (const LengthGroup& group : study.groups) distinct.insert(group.parts[i]);
    if (distinct.size() == 1) {
      // The fingerprint is shown only if there are several machines.
      if (!distinct.begin()->starts_with("machine ")) shared.push_back(*distinct.begin());
      continue;
    }
    for (LengthGroup& group : study.groups)
      if (!group.parts[i].empty()) group.name += (group.name.empty() ? "" : ", ") + group.parts[i];
  }
  study.shared = joined(shared);
}

// Common implementations have fixed colours (own_colour); others get the free ones in the order of
// the rows, probes of the roofline last.
std::map<std::string, int> colours_of(const std::vector<const Record*>& rows) {
  std::map<std::string, int> colours;
  std::set<int> taken;
  for (const Record* record : rows)
    if (const int own = own_colour(record->implementation); own >= 0) {
      colours[record->implementation] = own;
      taken.insert(own);
    }
  int next = 0;
  for (const bool probes : {false, true})
    for (const Record* record : rows) {
      if ((record->study == "roofline") != probes || colours.contains(record->implementation))
        continue;
      while (taken.contains(next)) ++next;
      colours[record->implementation] = next++;
    }
  return colours;
}

LengthStudy make_length_study(const ReportContext& context, std::string_view study) {
  LengthStudy out;
  const VariantNames variants(context.input.records, study);
  std::map<std::vector<std::string>, size_t> group_of_parts;
  const auto note = [](std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Record* record : context.rows) {
    if (record->study != study) continue;
    const auto seq_len = positive_at(record->workload, "seq_len");
    if (!seq_len) continue;
    const std::string name = shown(variants.of(*record), 60);
    const auto [entry, is_new] = group_of_parts.try_emplace(parts_of(*record), out.groups.size());
    if (is_new) out.groups.emplace_back().parts = entry->first;
    LengthGroup& group = out.groups[entry->second];
    note(group.implementations, name);
    note(out.implementations, name);
    if (group.implementations.size() > kMostImplementations) {
      group.implementations.pop_back();
      out.all_shown = false;
      continue;
    }
    group.rows.push_back({record, name, *seq_len});
    group.by_size[{*seq_len, name}] = record;
  }
  name_groups(out);
  for (LengthGroup& group : out.groups) sort_by(group.rows, &LengthRow::seq_len);
  sort_by_falling(out.groups, [](const LengthGroup& group) {
    return std::pair(group.implementations.size(), group.lengths().size());
  });
  return out;
}

}  // namespace

int ReportContext::colour(const std::string& implementation) const {
  const auto found = colours.find(implementation);
  return found == colours.end() ? 0 : found->second;
}

const RooflineDot* ReportContext::dot(const Record& record, std::string_view series) const {
  const auto first = first_dot.find(&record);
  if (first == first_dot.end()) return nullptr;
  for (size_t i = first->second; i < dots.size() && dots[i].record == &record; ++i)
    if (dots[i].series == series) return &dots[i];
  return nullptr;
}

std::string shown(std::string_view text, size_t max_length) {
  return printable(text, max_length);
}

ReportCell text_cell(const std::string& text) {
  ReportCell cell{text, {}};
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && std::isfinite(number)) cell.number = number;
  return cell;
}

void drop_columns(ReportTable& table, const std::function<bool(const std::string&)>& is_spare) {
  for (size_t column = table.columns.size(); column-- > 0;) {
    if (table.rows.empty()) return;
    const auto has = [&](const std::string& text) {
      return
          [&, column](const auto& row) { return column < row.size() && row[column].text == text; };
    };
    const auto& first = table.rows.front();
    const std::string text = column < first.size() ? first[column].text : std::string();
    if (!std::ranges::all_of(table.rows, has(text)) || !is_spare(text)) continue;
    table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(column));
    for (auto& row : table.rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
}

ReportTable as_report_table(const Table& table) {
  constexpr size_t kNarrow = 9;  // columns that fit anyway
  ReportTable result{.title = shown(table.title, 160)};
  for (const std::string& column : table.columns) result.columns.push_back(shown(column, 40));
  for (const std::vector<std::string>& row : table.rows) {
    std::vector<ReportCell>& cells = result.rows.emplace_back();
    for (const std::string& text : row) cells.push_back(text_cell(shown(text, 120)));
  }
  if (result.columns.size() <= kNarrow || result.rows.size() < 2) return result;
  const std::vector<std::string> columns = result.columns;
  std::string shared;
  const std::vector<ReportCell> first = result.rows.front();
  drop_columns(result, [&](const std::string&) { return true; });
  for (size_t i = 0; i < std::min(columns.size(), first.size()); ++i)
    if (std::ranges::find(result.columns, columns[i]) == result.columns.end() &&
        !first[i].text.empty())
      shared += fmt::format("{}{} {}", shared.empty() ? "" : ", ", columns[i], first[i].text);
  if (!shared.empty()) result.title += fmt::format(" ({})", shown(shared, 160));
  return result;
}

std::string text_at(const Json& object, const char* key) {
  return shown(text_of(object, key), 40);
}

std::string named_model(const std::string& text, const Json& workload) {
  constexpr std::string_view kCustom = "custom ";
  const std::string layers = text_at(workload, "layers"), width = text_at(workload, "d_model");
  if (!text.starts_with(kCustom) || layers.empty() || width.empty()) return text;
  return fmt::format("{} layers, d {}, {}", layers, width, text.substr(kCustom.size()));
}

std::string study_title(const ReportContext& context, std::string_view study) {
  const auto known = context.input.titles.find(study);
  return known == context.input.titles.end() ? shown(study, 40) : std::string(known->second);
}

std::string key_words(std::string_view key) {
  std::string text = shown(key, 40);
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::string phase_words(std::string_view series) {
  return series == "fwd_bwd" ? "forward and backward" : key_words(series);
}

std::string figures_text(double value) {
  const double size = std::abs(value);
  if (size < 1e-4 && size > 1e-9)  // where {:g} writes an exponent
    return fmt::format("{:.{}f}", value, 1 - static_cast<int>(std::floor(std::log10(size))));
  if (!(size >= 1)) return fmt::format("{:.2g}", value);
  return fmt::format("{:.{}f}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

ReportContext report_context(const ReportInput& input) {
  ReportContext context{
      .input = input, .rows = {}, .colours = {}, .rooflines = rooflines(input.records)};
  std::unordered_map<std::string, size_t> row_of_key;
  for (const Record& record : input.records) {
    // Rows of another machine are other rows, though --resume ignores the machine.
    const std::string key = workload_key(record) + record.machine.fingerprint;
    const auto [entry, is_new] = row_of_key.try_emplace(key, context.rows.size());
    if (is_new) {
      context.rows.push_back(&record);
    } else {
      ++context.superseded;
      const Record*& kept = context.rows[entry->second];
      if (record.time >= kept->time) kept = &record;
    }
  }
  context.colours = colours_of(context.rows);
  context.verdicts = std::make_shared<Verdicts>(input.records, input.noise);
  context.dots = roofline_dots(context);
  for (size_t i = 0; i < context.dots.size(); ++i)
    context.first_dot.try_emplace(context.dots[i].record, i);
  return context;
}

const Record* LengthGroup::find(const std::string& implementation, int64_t seq_len) const {
  const auto found = by_size.find({seq_len, implementation});
  return found == by_size.end() ? nullptr : found->second;
}

std::vector<int64_t> LengthGroup::lengths() const {
  std::set<int64_t> lengths;
  for (const LengthRow& row : rows) lengths.insert(row.seq_len);
  return {lengths.begin(), lengths.end()};
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

const LengthStudy& length_study(const ReportContext& context, std::string_view study) {
  auto known = context.length_studies->find(study);
  if (known == context.length_studies->end())
    known = context.length_studies->emplace(study, make_length_study(context, study)).first;
  return known->second;
}

std::string baseline_of(const std::vector<std::string>& implementations) {
  for (const char* name : {"naive", "vanilla", "torch.naive"})
    if (std::find(implementations.begin(), implementations.end(), name) != implementations.end())
      return name;
  return implementations.empty() ? std::string() : implementations.front();
}

std::string place_of(const LengthGroup& group, int64_t seq_len) {
  return fmt::format("S {}{}{}", seq_len, group.name.empty() ? "" : ", ", group.name);
}

}  // namespace ridgeline
