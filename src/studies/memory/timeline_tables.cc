#include "studies/memory/timeline_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/sort_by.h"
#include "report/record_columns.h"
#include "studies/memory/attention.h"
#include "studies/memory/model.h"
#include "studies/memory/recorded_timeline.h"
#include "studies/profile/fold_rows.h"
#include "studies/profile/tables.h"

namespace ridgeline {
namespace {

std::vector<const Record*> rows_of(const RecordRefs& records) {
  std::vector<const Record*> rows = rows_of_study(records, "memory");
  // Records of models' accounts are of the same study, but have no timeline.
  std::erase_if(rows, [](const Record* record) {
    return record->status == Status::ok && !recorded_timeline(*record);
  });
  return rows;
}

std::string count(const std::optional<Bytes>& bytes) {
  return bytes ? fmt::to_string(bytes->count) : std::string();
}

// A record, and its timeline; the timeline is empty if the record has none.
struct TimelineRow : RecordRow {
  RecordedTimeline timeline;
  bool is_there() const { return timeline.events > 0; }
};

Column<TimelineRow> bytes_column(const char* name, std::optional<Bytes> MemoryFacts::*which) {
  return {name, [=](const TimelineRow& row) { return count(row.record->memory.*which); }};
}

Column<TimelineRow> bytes_column(const char* name, Bytes RecordedTimeline::*which) {
  return {name, [=](const TimelineRow& row) {
            return row.is_there() ? count(row.timeline.*which) : std::string();
          }};
}

// Of the tensor that is made at the peak, and of the largest.
using Tensors = RecordedTimeline::Tensors;
Column<TimelineRow> peak_column(const char* name, std::string Tensors::*which) {
  return {name, [=](const TimelineRow& row) { return row.timeline.at_peak.*which; }};
}
Column<TimelineRow> largest_column(const char* name, std::string Tensors::*which) {
  return {name, [=](const TimelineRow& row) {
            const std::vector<Tensors>& largest = row.timeline.largest;
            return largest.empty() ? std::string() : largest.front().*which;
          }};
}

// "128 MiB scores fp32[4, 32, 512, 512] of layers.*.attention.scores, made by matmul".
std::string in_words(const RecordedTimeline::Tensors& tensors) {
  std::string text = to_string(tensors.each) + " " + tensors.name;
  if (!tensors.type.empty()) text += " " + tensors.type;
  if (!tensors.scope.empty()) text += " of " + tensors.scope;
  return text + ", made by " + tensors.op;
}

Table tensors_table(std::string title, const std::vector<RecordedTimeline::Tensors>& list,
                    size_t top) {
  Table table{.title = std::move(title),
              .columns = {"tensors", "count", "each", "together", "type", "op", "phase", "scope"},
              .rows = {},
              .spare = {"phase", "scope", "type"}};
  for (const RecordedTimeline::Tensors& each : list) {
    if (table.rows.size() == top) break;
    table.rows.push_back({each.name, fmt::to_string(each.count), to_string(each.each),
                          to_string(each.total()), each.type, each.op, each.phase, each.scope});
  }
  return table;
}

// The peak of the forward pass within an arena that serves backward as well; nullopt if there is no
// such arena.
std::optional<Bytes> peak_within_arena(const Record& record) {
  if (text_of(record.workload, "scenario") != "forward") return std::nullopt;
  const auto timeline = recorded_timeline(record);
  if (!timeline || timeline->gaps.count == 0) return std::nullopt;
  return timeline->peak;
}

// What each layer keeps: that of the middle layer, and the extremes if layers differ.
std::string stairs_sentence(const RecordedTimeline& timeline) {
  if (timeline.stairs.size() < 2) return {};
  const auto [least, most] =
      std::ranges::minmax(timeline.stairs, {}, &RecordedTimeline::Stair::kept);
  const RecordedTimeline::Stair& usual = timeline.stairs[timeline.stairs.size() / 2];
  std::string text = fmt::format("Each of {} layers leaves {} for backward", timeline.stairs.size(),
                                 to_string(usual.kept));
  if (least.kept != most.kept)
    text += fmt::format(" (from {} of {} to {} of {})", to_string(least.kept), least.layer,
                        to_string(most.kept), most.layer);
  return text + ": one stair of the timeline.";
}

std::string kinds_sentence(const Record& record) {
  const std::string kinds = kinds_at_peak(record);
  return kinds.empty() ? kinds : fmt::format("There live {}.", kinds);
}

// What mixed precision changes, a sentence for each model, scenario and mode over its contexts:
// "Mixed precision, forward of 2.7B, vanilla: predicted peak +27.60 % at context 128, ...".
std::vector<std::string> mixed_sentences(const std::vector<const Record*>& rows) {
  const auto key = [](const Record& record) {
    Json workload = record.workload;
    workload["precision"] = "";
    return workload.dump() + record.implementation;
  };
  std::map<std::string, const Record*> full;  // fp32 rows, by the rest of their identity
  for (const Record* record : rows)
    if (text_of(record->workload, "precision") == "fp32") full[key(*record)] = record;
  std::vector<std::pair<std::string, std::string>> sentences;  // their beginning, and the rest
  for (const Record* record : rows) {
    if (text_of(record->workload, "precision") != "mixed") continue;
    const auto other = full.find(key(*record));
    if (other == full.end() || !record->memory.predicted_peak ||
        !other->second->memory.predicted_peak)
      continue;
    const std::string begin =
        fmt::format("Mixed precision, {} of {}, {}", text_of(record->workload, "scenario"),
                    text_of(record->workload, "model_size"), record->implementation);
    auto found = std::ranges::find(sentences, begin, &std::pair<std::string, std::string>::first);
    if (found == sentences.end()) found = sentences.insert(found, {begin, ""});
    found->second += fmt::format(
        "{}{} at context {}", found->second.empty() ? "" : ", ",
        signed_percent(*other->second->memory.predicted_peak, *record->memory.predicted_peak),
        text_of(record->workload, "context_length"));
  }
  std::vector<std::string> texts;
  for (const auto& [begin, rest] : sentences)
    texts.push_back(fmt::format("{}: predicted peak {}.", begin, rest));
  return texts;
}

}  // namespace

std::string timeline_workload_name(const Record& record) {
  std::string name = profile_workload_name(record);
  const std::string scenario = " " + text_of(record.workload, "scenario");
  if (name.ends_with(scenario)) name.resize(name.size() - scenario.size());
  return name;
}

Table timeline_csv(const RecordRefs& records) {
  std::vector<TimelineRow> rows;
  for (const Record* record : rows_of(records))
    rows.push_back({{record}, recorded_timeline(*record).value_or(RecordedTimeline{})});
  std::vector<Column<TimelineRow>> columns;
  append(columns, workload_columns({std::begin(kProfileSizes), std::end(kProfileSizes)}));
  append<TimelineRow>(
      columns, {{"implementation", implementation_cell},
                {"device", device_cell},
                bytes_column("predicted_peak_bytes", &MemoryFacts::predicted_peak),
                bytes_column("peak_bytes", &MemoryFacts::peak),
                bytes_column("live_peak_bytes", &RecordedTimeline::peak),
                bytes_column("gaps_bytes", &RecordedTimeline::gaps),
                bytes_column("inputs_bytes", &RecordedTimeline::inputs),
                peak_column("peak_phase", &Tensors::phase),
                peak_column("peak_op", &Tensors::op),
                peak_column("peak_scope", &Tensors::scope),
                {"largest_bytes",
                 [](const TimelineRow& row) {
                   const std::vector<Tensors>& largest = row.timeline.largest;
                   if (!row.is_there()) return std::string();
                   return count(largest.empty() ? Bytes{} : largest.front().each);
                 }},
                largest_column("largest_name", &Tensors::name),
                largest_column("largest_type", &Tensors::type),
                largest_column("largest_scope", &Tensors::scope),
                largest_column("largest_op", &Tensors::op),
                {"kept_per_layer_bytes",
                 [](const TimelineRow& row) {
                   const auto& stairs = row.timeline.stairs;
                   return stairs.empty() ? std::string() : count(stairs[stairs.size() / 2].kept);
                 }},
                {"residual_bytes",
                 [](const TimelineRow& row) {
                   return row.timeline.residual ? count(row.timeline.residual->each)
                                                : std::string();
                 }},
                {"events",
                 [](const TimelineRow& row) {
                   return row.is_there() ? fmt::to_string(row.timeline.events) : std::string();
                 }},
                bytes_column("process_peak_growth_bytes", &MemoryFacts::process_peak_growth),
                bytes_column("driver_peak_growth_bytes", &MemoryFacts::driver_peak_growth),
                {"budget_bytes", metric_text_cell("budget_bytes")},
                {"timeline_csv", metric_text_cell("timeline_csv")},
                {"snapshot", metric_text_cell("snapshot")},
                {"status", status_cell},
                {"error", error_cell}});
  return table_of("memory", columns, rows);
}

Table timeline_peaks(const RecordRefs& records) {
  constexpr const char* kScenarios[] = {"forward", "fwd-bwd", "full-step"};
  Table table{.title = "Peak memory, predicted and measured; forward keeps what backward needs",
              .columns = {"workload", "implementation"},
              .rows = {}};
  const std::vector<const Record*> rows = rows_of(records);
  const bool any_measured = std::ranges::any_of(
      rows, [](const Record* record) { return record->memory.peak.has_value(); });
  std::map<std::string, size_t> columns;  // the first column of each scenario
  for (const char* scenario : kScenarios)
    if (std::ranges::any_of(rows, [&](const Record* record) {
          return text_of(record->workload, "scenario") == scenario;
        })) {
      columns[scenario] = table.columns.size();
      table.columns.emplace_back(scenario);
      if (any_measured) table.columns.push_back(fmt::format("{} measured", scenario));
    }
  std::map<std::string, size_t> lines;
  for (const Record* record : rows) {
    const auto column = columns.find(text_of(record->workload, "scenario"));
    if (column == columns.end()) continue;
    const std::string workload = timeline_workload_name(*record);
    const auto [line, is_new] =
        lines.emplace(workload + "\n" + record->implementation, table.rows.size());
    if (is_new) {
      table.rows.push_back({workload, record->implementation});
      table.rows.back().resize(table.columns.size());
    }
    std::vector<std::string>& cells = table.rows[line->second];
    const auto shown_bytes = [](const std::optional<Bytes>& bytes) {
      return bytes ? to_string(*bytes) : std::string();
    };
    cells[column->second] = shown_bytes(record->memory.predicted_peak);
    if (const auto live = peak_within_arena(*record))
      cells[column->second] = fmt::format("{} ({})", to_string(*live), cells[column->second]);
    if (any_measured)
      cells[column->second + 1] = record->status == Status::ok
                                      ? shown_bytes(record->memory.peak)
                                      : std::string(status_csv_word(record->status));
  }
  return table;
}

Table held_at_peak(const Record& record, size_t top) {
  const RecordedTimeline timeline = recorded_timeline(record).value_or(RecordedTimeline{});
  Table table = tensors_table(fmt::format("What lives at the peak of {}", to_string(timeline.peak)),
                              timeline.held, top);
  Bytes rest = timeline.peak;
  for (size_t i = 0; i < std::min(top, timeline.held.size()); ++i) rest -= timeline.held[i].total();
  const auto add = [&](const char* name, Bytes bytes) {
    if (bytes.count <= 0 || table.rows.empty()) return;
    table.rows.push_back({name, "", "", to_string(bytes), "", "", "", ""});
  };
  add("all others", rest);
  add("gaps in the arena", timeline.gaps);
  return table;
}

Table largest_tensors_of(const Record& record, size_t top) {
  return tensors_table("The largest tensors that are made",
                       recorded_timeline(record).value_or(RecordedTimeline{}).largest, top);
}

std::string kinds_at_peak(const Record& record) {
  constexpr double kLeastShare = 0.01;
  if (!record.metrics) return {};
  const Json* held = record.metrics->find_key("at_peak");
  if (!held || !held->is_object()) return {};
  std::vector<std::pair<double, std::string>> kinds;
  double sum = 0;
  for (const MemoryKindInfo& kind : memory_kinds()) {
    const double bytes = number_in(*held, fmt::format("{}_bytes", kind.column).c_str()).value_or(0);
    if (!(bytes > 0 && bytes < 0x1p60)) continue;
    kinds.emplace_back(bytes, kind.summary);
    sum += bytes;
  }
  sort_by_falling(kinds, std::identity());
  std::string text;
  for (const auto& [bytes, name] : kinds)
    if (bytes >= kLeastShare * sum)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name,
                          to_string(Bytes{static_cast<int64_t>(bytes)}));
  return text;
}

std::vector<std::string> timeline_answers(const Record& record) {
  const auto timeline = recorded_timeline(record);
  if (!timeline || timeline->events == 0) return {};
  std::vector<std::string> answers;
  std::string peak = fmt::format("The peak of {} comes in {}, with {}", to_string(timeline->peak),
                                 timeline->at_peak.phase, in_words(timeline->at_peak));
  if (timeline->gaps.count > 0)
    peak += fmt::format("; {} of the arena are then gaps", to_string(timeline->gaps));
  if (record.memory.predicted_peak && record.memory.peak)
    peak += fmt::format("; predicted {}, measured by the ledger {} ({})",
                        to_string(*record.memory.predicted_peak), to_string(*record.memory.peak),
                        signed_percent(*record.memory.predicted_peak, *record.memory.peak));
  answers.push_back(peak + ".");
  for (std::string sentence : {kinds_sentence(record), stairs_sentence(*timeline)})
    if (!sentence.empty()) answers.push_back(std::move(sentence));
  const auto made =
      std::ranges::find(timeline->largest, "forward", &RecordedTimeline::Tensors::phase);
  if (made != timeline->largest.end())
    answers.push_back(fmt::format("The largest tensors of forward: {} of {}.",
                                  made->count == 1 ? "one" : fmt::to_string(made->count),
                                  in_words(*made)));
  if (timeline->residual)
    answers.push_back(fmt::format("A tensor of the residual stream, {}, has {}.",
                                  timeline->residual->type, to_string(timeline->residual->each)));
  return answers;
}

std::vector<std::string> timeline_notes(const RecordRefs& records) {
  const std::vector<const Record*> rows = rows_of(records);
  std::vector<std::string> notes = mixed_sentences(rows);
  size_t predicted = 0;
  for (const Record* record : rows) {
    if (record->status != Status::ok) {
      notes.push_back(fmt::format("{}: {}: {}", profile_name(*record),
                                  status_csv_word(record->status), record->error));
      continue;
    }
    predicted += !record->memory.peak;
    for (const char* file : {"timeline_csv", "snapshot"})
      if (const std::string why =
              text_of(*record->metrics, fmt::format("{}_not_written", file).c_str());
          !why.empty())
        notes.push_back(fmt::format("{}: no {}: {}", profile_name(*record),
                                    file == std::string_view("snapshot") ? "snapshot" : "events",
                                    why));
  }
  if (predicted > 0)
    notes.push_back(fmt::format(
        "{} of {} rows {} predicted alone, from graph and plan; --measure runs what fits.",
        predicted, rows.size(), predicted == 1 ? "is" : "are"));
  if (std::ranges::any_of(
          rows, [](const Record* record) { return peak_within_arena(*record).has_value(); }))
    notes.push_back(
        "In brackets: with the whole arena of a plan, which serves forward and backward and is "
        "there from the beginning.");
  return notes;
}

}  // namespace ridgeline
