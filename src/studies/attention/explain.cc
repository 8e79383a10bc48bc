// Sentences about attention records; each is a function of the rows, empty if they do not support
// it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/printable.h"
#include "measure/growth.h"
#include "report/page/axis.h"
#include "report/record_cells.h"
#include "report/terminal/busy_cells.h"
#include "report/verdicts.h"
#include "studies/attention/record_rows.h"
#include "studies/attention/tables.h"

namespace ridgeline {
namespace {

using Rows = std::vector<AttentionRow>;
using Sentence = std::optional<std::string>;

std::string place(const AttentionSize& size) {
  return fmt::format("S={} d={}", size.seq_len, size.d_model);
}

// The place, and what else distinguishes the row from the others.
std::string place_among(const AttentionRow& row, const Rows& rows) {
  const AttentionSize& size = row.size;
  std::string text = place(size);
  const auto differs = [&](auto AttentionSize::*part) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const AttentionRow& other) { return other.size.*part != size.*part; });
  };
  if (differs(&AttentionSize::batch_size)) text += fmt::format(" batch={}", size.batch_size);
  if (differs(&AttentionSize::heads)) text += fmt::format(" heads={}", size.heads);
  if (differs(&AttentionSize::causal)) text += size.causal ? " causal" : " not causal";
  if (differs(&AttentionSize::dtype)) text += fmt::format(" {}", printable(size.dtype, 20));
  if (differs(&AttentionSize::device)) text += fmt::format(" on {}", printable(size.device, 20));
  const std::string& machine = row.record->machine.fingerprint;
  if (std::ranges::any_of(rows, [&](const AttentionRow& other) {
        return other.record->machine.fingerprint != machine;
      }))
    text += fmt::format(" machine {}", printable(machine, 16));
  return text;
}

Rows with_status(const Rows& rows, Status status) {
  Rows out;
  for (const AttentionRow& row : rows)
    if (row.record->status == status) out.push_back(row);
  return out;
}

bool shorter(const AttentionRow& a, const AttentionRow& b) {
  const auto order = [](const AttentionSize& s) {
    return std::tuple(s.seq_len, s.d_model, s.batch_size * s.heads);
  };
  return order(a.size) < order(b.size);
}

// Identifies a row and its machine, whatever the implementation.
std::string key_of(const Record& record, Json workload, Json settings) {
  Record key;
  key.device = record.device;
  key.workload = std::move(workload);
  key.settings = std::move(settings);
  return workload_key(key) + record.machine.fingerprint;
}

std::string size_key(const Record& record) {
  Json settings = record.settings;
  if (settings.is_object()) settings.erase("backward");  // only some implementations have it
  return key_of(record, record.workload, settings);
}

std::string curve_key(const Record& record) {
  Json workload = record.workload;
  workload.erase("seq_len");
  return key_of(record, workload, record.settings);
}

// Curves of `observe(row)` over the sequence length; all else is equal within a curve.
template <class Observe>
std::vector<std::vector<Observation>> curves_of(const Rows& rows, Observe observe) {
  std::map<std::string, std::vector<Observation>> curves;
  for (const AttentionRow& row : rows)
    if (const std::optional<Observation> observation = observe(row))
      curves[curve_key(*row.record)].push_back(*observation);
  std::vector<std::vector<Observation>> out;
  for (auto& [key, curve] : curves) out.push_back(std::move(curve));
  return out;
}

std::vector<Growth> growths_of(const std::vector<std::vector<Observation>>& curves) {
  std::vector<Growth> growths;
  for (const std::vector<Observation>& curve : curves)
    if (const auto growth = growth_at_end(curve)) growths.push_back(*growth);
  return growths;
}

Sentence time_growth(const Rows& rows, const char* phase) {
  const std::vector<Growth> growths =
      growths_of(curves_of(rows, [&](const AttentionRow& row) -> std::optional<Observation> {
        const Series* series = row.record->find_series(phase);
        if (row.record->status != Status::ok || !series) return std::nullopt;
        return median_at(static_cast<double>(row.size.seq_len), series->statistics,
                         row.record->merged_runs > 0);
      }));
  if (growths.empty()) return std::nullopt;
  std::string text = fmt::format("{} time grows as {}", phase, in_words(growths, "S"));
  if (growths.size() == 1)
    text += fmt::format("; at the end twice the length takes {:.1f} times as long",
                        std::exp2(growths[0].exponent));
  return text;
}

Sentence forward_growth(const Rows& rows) {
  return time_growth(rows, "forward");
}

Sentence backward_growth(const Rows& rows) {
  return time_growth(rows, "backward");
}

Sentence memory_growth(const Rows& rows) {
  const Rows good = with_status(rows, Status::ok);
  const auto curves = curves_of(good, [](const AttentionRow& row) -> std::optional<Observation> {
    if (!row.record->memory.peak) return std::nullopt;
    return exactly(static_cast<double>(row.size.seq_len),
                   static_cast<double>(row.record->memory.peak->count));
  });
  const std::vector<Growth> growths = growths_of(curves);
  if (growths.empty()) return std::nullopt;
  std::string text = fmt::format("peak memory grows as {}", in_words(growths, "S"));
  double most_fixed = 0;
  for (const std::vector<Observation>& curve : curves)
    most_fixed = std::max(most_fixed, fixed_part(curve).value_or(0));
  if (most_fixed >= 1)
    text += fmt::format("; {}{} do not grow", curves.size() > 1 ? "up to " : "",
                        to_string(Bytes{static_cast<int64_t>(most_fixed)}));
  const auto longest = std::max_element(good.begin(), good.end(), shorter);
  if (longest->record->memory.peak)
    text += fmt::format("; it is {} at {}", to_string(*longest->record->memory.peak),
                        place_among(*longest, rows));
  return text;
}

Sentence quadratic_share(const Rows& rows) {
  const AttentionRow* longest = nullptr;
  for (const AttentionRow& row : rows) {
    const MemoryFacts& memory = row.record->memory;
    if (!memory.predicted_quadratic || !memory.predicted_peak || memory.predicted_peak->count <= 0)
      continue;
    if (!longest || shorter(*longest, row)) longest = &row;
  }
  if (!longest) return std::nullopt;
  const MemoryFacts& memory = longest->record->memory;
  return fmt::format(
      "at {}, tensors of S x S elements hold {:.0f}% of the predicted peak of {}",
      place_among(*longest, rows),
      100 * memory.predicted_quadratic->mebibytes() / memory.predicted_peak->mebibytes(),
      to_string(*memory.predicted_peak));
}

Sentence oom_frontier(const Rows& rows) {
  const AttentionRow* first = smallest_oom_row(rows);
  const Rows good = with_status(rows, Status::ok);
  if (!first) return std::nullopt;
  std::string text =
      fmt::format("the smallest size that does not fit is {}", place_among(*first, rows));
  if (const auto predicted = first->record->memory.predicted_peak)
    text += fmt::format(", which needs {} by prediction", to_string(*predicted));
  if (!good.empty())
    text += fmt::format("; the longest that runs is {}",
                        place_among(*std::max_element(good.begin(), good.end(), shorter), rows));
  return text;
}

Sentence error_nearest_tolerance(const Rows& rows) {
  const AttentionRow* worst_row = nullptr;
  const TensorError* worst = nullptr;
  int checked = 0;
  for (const AttentionRow& row : rows) {
    if (!row.record->verification.checked) continue;
    ++checked;
    for (const TensorError& tensor : row.record->verification.tensors) {
      if (!std::isfinite(tensor.max_error) || !(tensor.tolerance > 0)) continue;
      if (worst && tensor.max_error / tensor.tolerance <= worst->max_error / worst->tolerance)
        continue;
      worst = &tensor;
      worst_row = &row;
    }
  }
  if (!worst) return std::nullopt;
  return fmt::format(
      "of all errors against the {} oracle, {:.2g} in {} at {} is the nearest to its tolerance: "
      "{:.0f}% of {:.2g} ({} rows checked)",
      printable(worst_row->record->verification.oracle), worst->max_error, printable(worst->name),
      place_among(*worst_row, rows), 100 * worst->max_error / worst->tolerance, worst->tolerance,
      checked);
}

Sentence throughput(const Rows& rows) {
  const AttentionRow* longest = nullptr;
  for (const AttentionRow& row : rows)
    if (row.record->cost && median_ms(*row.record, "forward").value_or(0) > 0)
      if (!longest || shorter(*longest, row)) longest = &row;
  if (!longest) return std::nullopt;
  const Record& record = *longest->record;
  const auto rate = [&](const char* phase, int64_t flops) {
    const double seconds = median_ms(record, phase).value_or(0) / 1e3;
    return quantity_text(Quantity::flops_per_s, static_cast<double>(flops) / seconds);
  };
  std::string text = fmt::format("at {} forward reaches {}", place_among(*longest, rows),
                                 rate("forward", record.cost->forward.flops));
  if (median_ms(record, "backward").value_or(0) > 0)
    text += ", backward " + rate("backward", record.cost->backward.flops);
  return text;
}

// The rules, one sentence each, applied to the rows of each implementation.
using Rule = Sentence (*)(const Rows&);
constexpr Rule kRules[] = {forward_growth, backward_growth,         memory_growth, quadratic_share,
                           oom_frontier,   error_nearest_tolerance, throughput};

Sentence speedup(const Rows& rows, const std::string& base, const std::string& other,
                 Verdicts& verdicts) {
  std::map<std::string, std::map<std::string, const AttentionRow*>> by_size;
  for (const AttentionRow& row : rows) by_size[size_key(*row.record)][row.implementation] = &row;
  std::string text;
  Reasons reasons;
  for (const char* phase : {"forward", "backward"}) {
    Speedup speedup(verdicts);
    for (const auto& [size, found] : by_size)
      if (found.contains(base) && found.contains(other))
        speedup.add(found.at(base)->record, found.at(other)->record, phase,
                    place_among(*found.at(base), rows));
    if (speedup.count() == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", phase, speedup.words());
    reasons.add(speedup.reasons());
  }
  if (text.empty()) return std::nullopt;
  if (!reasons.empty()) text += "; undecided because: " + reasons.text();
  return fmt::format("{} against {}: {}", printable(other, 40), printable(base, 40), text);
}

// How FLOPs are counted, stated once for all rows.
Sentence conventions(const Rows& rows) {
  std::string text;
  for (const AttentionRow& row : rows)
    if (row.record->cost && !row.record->cost->convention.empty())
      if (const std::string words = printable(row.record->cost->convention);
          text.find(words) == text.npos)
        text += (text.empty() ? "FLOPs count " : "; ") + words;
  return text.empty() ? std::nullopt : Sentence(text);
}

Sentence about_all(const Rows& rows, std::string (*note_of)(std::span<const Record* const>)) {
  std::vector<const Record*> records;
  for (const AttentionRow& row : rows) records.push_back(row.record);
  const std::string note = note_of(records);
  return note.empty() ? std::nullopt : Sentence(note);
}

Sentence bad_rows(const Rows& rows, Status status) {
  const Rows bad = with_status(rows, status);
  if (bad.empty()) return std::nullopt;
  const AttentionRow& first = bad.front();
  return fmt::format("{} {} {}, so {} times are not shown; the first: {} {}: {}", bad.size(),
                     bad.size() == 1 ? "row is" : "rows are", status_csv_word(status),
                     bad.size() == 1 ? "its" : "their", printable(first.implementation, 40),
                     place(first.size), printable(first.record->error));
}

}  // namespace

std::vector<std::string> explain_attention(const RecordRefs& records, Verdicts& verdicts) {
  const AttentionRows all = attention_rows(records);
  std::vector<std::string> sentences;
  const auto add = [&](const std::string& prefix, const Sentence& sentence) {
    if (sentence) sentences.push_back(prefix + *sentence + ".");
  };
  for (size_t i = 1; i < all.implementations.size(); ++i)
    add("", speedup(all.rows, all.implementations[0], all.implementations[i], verdicts));
  for (const Status status : {Status::wrong, Status::invalid, Status::unsupported, Status::skipped})
    add("", bad_rows(all.rows, status));
  for (const std::string& implementation : all.implementations) {
    Rows rows;
    for (const AttentionRow& row : all.rows)
      if (row.implementation == implementation) rows.push_back(row);
    for (const Rule rule : kRules) add(printable(implementation, 40) + ": ", rule(rows));
  }
  add("", about_all(all.rows, host_bound_note));
  add("", about_all(all.rows, noise_note));
  add("", conventions(all.rows));
  return sentences;
}

}  // namespace ridgeline
