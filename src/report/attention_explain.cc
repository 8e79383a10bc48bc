// Sentences about attention records; each is a function of the rows that returns nothing without
// support.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/printable.h"
#include "report/attention_report.h"
#include "report/attention_rows.h"
#include "report/power_law.h"
#include "report/record_cells.h"
#include "report/report_axis.h"

namespace ridgeline {
namespace {

using Rows = std::vector<AttentionRow>;
using Sentence = std::optional<std::string>;

std::string place(const AttentionSize& size) {
  return fmt::format("S={} d={}", size.seq_len, size.d_model);
}

// What else tells one row of these from the others.
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

// The exponent of `value(record)` over the sequence length, all else being equal within a group.
template <class Value>
std::optional<PowerLaw> growth(const Rows& rows, Value value) {
  std::map<AttentionSize, int> groups;
  std::vector<Observation> observations;
  for (const AttentionRow& row : rows) {
    AttentionSize all_else = row.size;
    all_else.seq_len = 0;
    const int group = groups.try_emplace(all_else, static_cast<int>(groups.size())).first->second;
    if (const std::optional<double> y = value(*row.record))
      observations.push_back({group, static_cast<double>(row.size.seq_len), *y});
  }
  return fit_power_law(observations);
}

std::string in_words(const PowerLaw& law) {
  const char* word = std::abs(law.exponent - 2) <= 0.2   ? ", close to quadratic"
                     : std::abs(law.exponent - 1) <= 0.2 ? ", close to linear"
                                                         : "";
  return fmt::format("S^{:.2f}{}", law.exponent, word);
}

Sentence time_growth(const Rows& rows) {
  const auto fit = [&](const char* phase) {
    return growth(rows, [&](const Record& record) { return phase_median_ms(record, phase); });
  };
  const auto forward = fit("forward"), backward = fit("backward");
  if (!forward) return std::nullopt;
  std::string text =
      fmt::format("forward time grows with the sequence length as {}", in_words(*forward));
  if (backward) text += fmt::format("; backward as {}", in_words(*backward));
  return text +
         fmt::format(
             " (S from {:.0f} to {:.0f}): twice the length takes {:.1f} times as long forward",
             forward->x_min, forward->x_max, std::exp2(forward->exponent));
}

Sentence memory_growth(const Rows& rows) {
  const auto law = growth(rows, [](const Record& record) -> std::optional<double> {
    if (record.status != Status::ok || !record.memory.peak) return std::nullopt;
    return static_cast<double>(record.memory.peak->count);
  });
  if (!law) return std::nullopt;
  const Rows good = with_status(rows, Status::ok);
  const auto longest = std::max_element(good.begin(), good.end(), shorter);
  std::string text = fmt::format("peak memory grows as {}", in_words(*law));
  if (longest->record->memory.peak)
    text += fmt::format(", to {} at {}", to_string(*longest->record->memory.peak),
                        place(longest->size));
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
      place(longest->size),
      100 * memory.predicted_quadratic->mebibytes() / memory.predicted_peak->mebibytes(),
      to_string(*memory.predicted_peak));
}

Sentence oom_frontier(const Rows& rows) {
  const AttentionRow* first = smallest_oom_row(rows);
  const Rows good = with_status(rows, Status::ok);
  if (!first) return std::nullopt;
  std::string text;
  if (!good.empty())
    text = fmt::format("runs up to {}; ",
                       place(std::max_element(good.begin(), good.end(), shorter)->size));
  text += fmt::format("the smallest size that runs out of memory is batch {} {}",
                      first->size.batch_size, place(first->size));
  if (const auto predicted = first->record->memory.predicted_peak)
    text += fmt::format(", which needs {}", to_string(*predicted));
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
    if (row.record->cost && phase_median_ms(*row.record, "forward").value_or(0) > 0)
      if (!longest || shorter(*longest, row)) longest = &row;
  if (!longest) return std::nullopt;
  const Record& record = *longest->record;
  const auto rate = [&](const char* phase, int64_t flops) {
    const double seconds = phase_median_ms(record, phase).value_or(0) / 1e3;
    return quantity_text(Quantity::flops_per_s, static_cast<double>(flops) / seconds);
  };
  std::string text = fmt::format("at {} forward reaches {}", place_among(*longest, rows),
                                 rate("forward", record.cost->forward.flops));
  if (phase_median_ms(record, "backward").value_or(0) > 0)
    text += ", backward " + rate("backward", record.cost->backward.flops);
  if (!record.cost->convention.empty())
    text += fmt::format(" ({})", printable(record.cost->convention));
  return text;
}

// The rules: one sentence each, asked per implementation.
using Rule = Sentence (*)(const Rows&);
constexpr Rule kRules[] = {time_growth,  memory_growth,           quadratic_share,
                           oom_frontier, error_nearest_tolerance, throughput};

Sentence speedup(const Rows& rows, const std::string& base, const std::string& other) {
  std::map<AttentionSize, std::map<std::string, const Record*>> by_size;
  for (const AttentionRow& row : rows) by_size[row.size][row.record->implementation] = row.record;
  std::string text;
  for (const char* phase : {"forward", "backward"}) {
    double log_sum = 0;
    int count = 0;
    for (const auto& [size, found] : by_size) {
      if (!found.contains(base) || !found.contains(other)) continue;
      const double base_ms = phase_median_ms(*found.at(base), phase).value_or(0);
      const double other_ms = phase_median_ms(*found.at(other), phase).value_or(0);
      if (base_ms <= 0 || other_ms <= 0) continue;
      log_sum += std::log(base_ms / other_ms);
      ++count;
    }
    if (count > 0)
      text += fmt::format("{}{} {:.2f}x as fast over {} sizes", text.empty() ? "" : ", ", phase,
                          std::exp(log_sum / count), count);
  }
  if (text.empty()) return std::nullopt;
  return fmt::format("{} against {}: {} (geometric means)", printable(other), printable(base),
                     text);
}

Sentence noise(const Rows& rows) {
  std::vector<const Record*> records;
  for (const AttentionRow& row : rows) records.push_back(row.record);
  const std::string note = noise_note(records);
  return note.empty() ? std::nullopt : Sentence(note);
}

Sentence bad_rows(const Rows& rows, Status status) {
  const Rows bad = with_status(rows, status);
  if (bad.empty()) return std::nullopt;
  const AttentionRow& first = bad.front();
  return fmt::format("{} {} {}, so {} times are not shown; the first: {} {}: {}", bad.size(),
                     bad.size() == 1 ? "row is" : "rows are", status_csv_word(status),
                     bad.size() == 1 ? "its" : "their", printable(first.record->implementation, 40),
                     place(first.size), printable(first.record->error));
}

}  // namespace

std::vector<std::string> explain_attention(std::span<const Record> records) {
  const AttentionRows all = attention_rows(records);
  std::vector<std::string> sentences;
  const auto add = [&](const std::string& prefix, const Sentence& sentence) {
    if (sentence) sentences.push_back(prefix + *sentence + ".");
  };
  for (const std::string& implementation : all.implementations) {
    Rows rows;
    for (const AttentionRow& row : all.rows)
      if (row.record->implementation == implementation) rows.push_back(row);
    for (const Rule rule : kRules) add(printable(implementation, 40) + ": ", rule(rows));
  }
  for (size_t i = 1; i < all.implementations.size(); ++i)
    add("", speedup(all.rows, all.implementations[0], all.implementations[i]));
  add("", noise(all.rows));
  for (const Status status : {Status::wrong, Status::invalid, Status::unsupported, Status::skipped})
    add("", bad_rows(all.rows, status));
  return sentences;
}

}  // namespace ridgeline
