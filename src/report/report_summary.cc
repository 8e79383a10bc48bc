// The first screen of a report: verdicts in sentences, each only if the records support it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "measure/statistics.h"
#include "report/record_cells.h"
#include "report/report_axis.h"
#include "report/report_sections.h"

namespace ridgeline {
namespace {

using Sentences = std::vector<std::string>;

std::string list_of(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

// Less than 95 % coverage bounds no median, so such a series neither beats nor is beaten.
bool beats(const Statistics& a, const Statistics& b) {
  return std::isfinite(relative_half_width(a)) && std::isfinite(relative_half_width(b)) &&
         a.median_high_ms < b.median_low_ms;
}

// Ratios of the same size in two implementations.
struct Speedup {
  double mean = 0;  // geometric
  double low = 0, high = 0;
  std::string low_at, high_at;
  int count = 0;
  int unclear = 0;  // of them: neither beats the other

  bool known() const { return count > unclear; }

  // Nothing where one of the two did not run.
  void add(const Record* before, const Record* after, const char* series,
           const std::string& place) {
    const auto before_ms = before ? median_of(*before, series) : std::nullopt;
    const auto after_ms = after ? median_of(*after, series) : std::nullopt;
    if (!before_ms || !after_ms) return;
    const double ratio = *before_ms / *after_ms;
    if (!std::isfinite(ratio) || ratio <= 0) return;
    const Statistics& a = before->find_series(series)->statistics;
    const Statistics& b = after->find_series(series)->statistics;
    if (!beats(a, b) && !beats(b, a)) ++unclear;
    if (count == 0 || ratio < low) low = ratio, low_at = place;
    if (count == 0 || ratio > high) high = ratio, high_at = place;
    log_sum_ += std::log(ratio);
    mean = std::exp(log_sum_ / ++count);
  }

  std::string words() const {
    if (!known())
      return count == 1 ? fmt::format("too close to call ({})", low_at)
                        : fmt::format("too close to call at all {} sizes", count);
    if (count == 1) return fmt::format("{:.2f}x as fast ({})", mean, low_at);
    return fmt::format(
        "{:.2f}x as fast (geometric mean over {} sizes{}; from {:.2f}x at {} to {:.2f}x at {})",
        mean, count, unclear > 0 ? fmt::format(", {} of them too close to call", unclear) : "", low,
        low_at, high, high_at);
  }

 private:
  double log_sum_ = 0;
};

Speedup speedup_of(const LengthStudy& study, const std::string& base, const std::string& other,
                   const char* phase) {
  Speedup speedup;
  for (const LengthGroup& group : study.groups)
    for (const int64_t length : group.lengths())
      speedup.add(group.find(base, length), group.find(other, length), phase,
                  place_of(group, length));
  return speedup;
}

// One phase of one size that several implementations tried.
struct Contest {
  int64_t seq_len = 0;
  size_t ran = 0;                          // how many of them were measured
  std::vector<std::string> unbeaten = {};  // one: the winner; several: too close to call
};

std::vector<Contest> contests_of(const LengthStudy& study, const char* phase) {
  std::vector<Contest> contests;
  for (const LengthGroup& group : study.groups)
    for (const int64_t length : group.lengths()) {
      std::vector<std::pair<std::string, const Statistics*>> ran;
      size_t failed = 0;
      for (const std::string& name : group.implementations) {
        const Record* record = group.find(name, length);
        if (record && median_of(*record, phase))
          ran.emplace_back(name, &record->find_series(phase)->statistics);
        else if (record && record->status != Status::ok)
          ++failed;
      }
      if (ran.empty() || ran.size() + failed < 2) continue;
      Contest& contest = contests.emplace_back(Contest{.seq_len = length, .ran = ran.size()});
      for (const auto& [name, statistics] : ran)
        if (std::none_of(ran.begin(), ran.end(), [one = statistics](const auto& other) {
              return beats(*other.second, *one);
            }))
          contest.unbeaten.push_back(name);
    }
  return contests;
}

struct Wins {
  std::map<std::string, int> by_name;
  int unclear = 0;
  int sizes = 0;
};

Wins count_wins(const LengthStudy& study, const char* phase) {
  Wins wins;
  for (const Contest& contest : contests_of(study, phase)) {
    if (contest.ran < 2) continue;
    ++wins.sizes;
    ++(contest.unbeaten.size() == 1 ? wins.by_name[contest.unbeaten[0]] : wins.unclear);
  }
  return wins;
}

std::string wins_words(const Wins& wins, const char* phase) {
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [name, count] : wins.by_name) order.emplace_back(-count, name);
  std::sort(order.begin(), order.end());
  if (order.size() == 1 && -order[0].first == wins.sizes)
    return fmt::format("{} is the fastest {} at {} sizes", order[0].second, phase,
                       wins.sizes == 1 ? "the one" : fmt::format("all {}", wins.sizes));
  std::vector<std::string> words;
  for (const auto& [count, name] : order) words.push_back(fmt::format("{} at {}", name, -count));
  if (wins.unclear > 0) words.push_back(fmt::format("too close to call at {}", wins.unclear));
  return fmt::format("fastest {}, of {} sizes: {}", phase, wins.sizes, list_of(words));
}

void about_speed(const ReportContext& context, const char* study_name, const char* words,
                 Sentences& out) {
  const LengthStudy study = length_study(context, study_name);
  if (study.implementations.size() < 2 || study.implementations.size() > kMostImplementations)
    return;
  const std::string base = baseline_of(study.implementations);
  for (const char* phase : {"forward", "backward"}) {
    const Wins wins = count_wins(study, phase);
    if (wins.sizes == 0) continue;
    std::string text = fmt::format("{}: {}.", words, wins_words(wins, phase));
    for (const std::string& name : study.implementations)
      if (name != base)
        if (const Speedup speedup = speedup_of(study, base, name, phase); speedup.count > 0)
          text += fmt::format(" Against {}, {} is {}.", base, name, speedup.words());
    out.push_back(std::move(text));
  }
}

// Where one implementation is out of memory, and whether another still runs.
void about_memory(const ReportContext& context, Sentences& out) {
  const LengthStudy study = length_study(context, "attention");
  if (study.implementations.size() > kMostImplementations) return;
  for (const std::string& name : study.implementations) {
    const Record* smallest = nullptr;
    const LengthGroup* group_of_smallest = nullptr;
    int64_t length = 0;
    for (const LengthGroup& group : study.groups)
      for (const LengthRow& row : group.rows)
        if (row.implementation == name && row.record->status == Status::oom &&
            (!smallest || row.seq_len < length))
          smallest = row.record, group_of_smallest = &group, length = row.seq_len;
    if (!smallest) continue;
    std::string text =
        fmt::format("Memory ends for {} at {}", name, place_of(*group_of_smallest, length));
    if (smallest->memory.predicted_peak)
      text += fmt::format(", where it would need {}", to_string(*smallest->memory.predicted_peak));
    for (const std::string& other : study.implementations) {
      const Record* runs = group_of_smallest->find(other, length);
      if (runs && runs->status == Status::ok && runs->memory.peak)
        text += fmt::format("; {} runs there in {}", other, to_string(*runs->memory.peak));
    }
    out.push_back(text + ".");
  }
}

// Of the implementations that ran a size, how much less memory the leanest takes at the longest.
void about_memory_ratio(const ReportContext& context, Sentences& out) {
  const LengthStudy study = length_study(context, "attention");
  if (study.implementations.size() < 2 || study.implementations.size() > kMostImplementations)
    return;
  const std::string base = baseline_of(study.implementations);
  std::string best;
  int64_t best_length = 0;
  for (const LengthGroup& group : study.groups)
    for (const int64_t length : group.lengths()) {
      const Record* before = group.find(base, length);
      if (!before || before->status != Status::ok || !before->memory.peak || length <= best_length)
        continue;
      for (const std::string& name : group.implementations) {
        const Record* after = group.find(name, length);
        if (name == base || !after || after->status != Status::ok || !after->memory.peak ||
            after->memory.peak->count <= 0)
          continue;
        best_length = length;
        best =
            fmt::format("At {} {} needs {} where {} needs {}: {:.1f}x.", place_of(group, length),
                        name, to_string(*after->memory.peak), base, to_string(*before->memory.peak),
                        before->memory.peak->mebibytes() / after->memory.peak->mebibytes());
      }
    }
  if (!best.empty()) out.push_back(best);
}

// Who wins at least one of these and is beaten in none; empty: nobody.
std::string winner_of(std::span<const Contest> contests) {
  const auto won = std::find_if(contests.begin(), contests.end(),
                                [](const Contest& each) { return each.unbeaten.size() == 1; });
  if (won == contests.end()) return {};
  const std::string& name = won->unbeaten[0];
  const bool never_beaten = std::all_of(contests.begin(), contests.end(), [&](const Contest& each) {
    return std::find(each.unbeaten.begin(), each.unbeaten.end(), name) != each.unbeaten.end();
  });
  return never_beaten ? name : std::string();
}

// One rule for all lengths, or one that changes once, if no group and no phase speaks against it.
std::string rule_of(std::span<const Contest> by_length) {
  if (const std::string name = winner_of(by_length); !name.empty())
    return fmt::format("use {} at every length compared here", name);
  for (size_t i = 1; i < by_length.size(); ++i) {
    if (by_length[i].seq_len == by_length[i - 1].seq_len) continue;
    const std::string before = winner_of(by_length.first(i)),
                      after = winner_of(by_length.subspan(i));
    if (!before.empty() && !after.empty())
      return fmt::format("use {} up to S {}, and {} from S {} on", before, by_length[i - 1].seq_len,
                         after, by_length[i].seq_len);
  }
  return {};
}

void advice(const ReportContext& context, Sentences& out) {
  const LengthStudy study = length_study(context, "attention");
  if (study.implementations.size() < 2 || study.implementations.size() > kMostImplementations)
    return;
  std::vector<Contest> contests = contests_of(study, "forward");
  for (Contest& contest : contests_of(study, "backward")) contests.push_back(std::move(contest));
  std::stable_sort(contests.begin(), contests.end(),
                   [](const Contest& a, const Contest& b) { return a.seq_len < b.seq_len; });
  const auto unclear = std::count_if(contests.begin(), contests.end(),
                                     [](const Contest& each) { return each.unbeaten.size() > 1; });
  if (unclear == std::ssize(contests)) return;
  const std::string rule = rule_of(contests);
  if (rule.empty())
    out.push_back(
        "What to do: no implementation wins everywhere; choose by size from the table of "
        "all rows.");
  else if (unclear == 0)
    out.push_back(fmt::format("What to do: {}.", rule));
  else
    out.push_back(fmt::format("What to do: {} ({} of {} comparisons are too close to call).", rule,
                              unclear, contests.size()));
}

void about_models(const ReportContext& context, Sentences& out) {
  struct Words {
    const char* series;
    const char* text;
  };
  std::map<std::string, std::map<std::string, const Record*>> by_model;
  std::vector<std::string> names;
  for (const Record* record : context.rows) {
    if (record->study != "model" || !record->workload.is_object()) continue;
    const Json& workload = record->workload;
    const std::string model =
        fmt::format("{}, context {}, {}, batch {}", text_at(workload, "model_size"),
                    text_at(workload, "context_length"), text_at(workload, "precision"),
                    text_at(workload, "batch_size"));
    by_model[model + "|" + record->machine.fingerprint][record->implementation] = record;
    if (std::find(names.begin(), names.end(), record->implementation) == names.end())
      names.push_back(record->implementation);
  }
  if (names.size() < 2 || names.size() > kMostImplementations) return;
  const std::string base = baseline_of(names);
  for (const std::string& name : names) {
    if (name == base) continue;
    for (const Words& scenario :
         {Words{"forward", "forward"}, Words{"fwd_bwd", "forward and backward"},
          Words{"full_step", "the full training step"}}) {
      Speedup speedup;
      for (const auto& [model, rows] : by_model) {
        const auto before = rows.find(base), after = rows.find(name);
        if (before != rows.end() && after != rows.end())
          speedup.add(before->second, after->second, scenario.series,
                      model.substr(0, model.find('|')));
      }
      if (speedup.count > 0)
        out.push_back(fmt::format("Transformers: against {}, {} in {} is {}.", shown(base, 40),
                                  shown(name, 40), scenario.text, speedup.words()));
    }
  }
}

void about_roof(const ReportContext& context, Sentences& out) {
  const std::vector<RooflineDot> dots = roofline_dots(context);
  const RooflineDot* best = nullptr;
  size_t above = 0;
  for (const RooflineDot& dot : dots)
    if (dot.roof && dot.flops_per_s > kCeilingSlack * *dot.roof)
      ++above;
    else if (dot.roof && (!best || dot.flops_per_s / *dot.roof > best->flops_per_s / *best->roof))
      best = &dot;
  if (above > 0)
    out.push_back(fmt::format(
        "Ceilings: {} ran faster than the ceilings of their machine: measure those again while "
        "nothing else runs.",
        counted(above, "timing")));
  if (best)
    out.push_back(
        fmt::format("Distance to the roof: the best pass is {} {} with {}, {:.0f} % of what "
                    "the machine allows at its intensity.",
                    shown(best->record->implementation, 40), shown(best->series, 40),
                    quantity_text(Quantity::flops_per_s, best->flops_per_s),
                    100 * best->flops_per_s / *best->roof));
}

void about_trust(const ReportContext& context, Sentences& out) {
  size_t measured = 0, checked = 0, throttled = 0;
  double worst = 0;
  std::map<Status, size_t> bad;
  std::map<Status, const Record*> first;
  for (const Record* record : context.rows) {
    if (record->status != Status::ok) {
      ++bad[record->status];
      first.try_emplace(record->status, record);
      continue;
    }
    ++measured;
    if (record->verification.checked) ++checked;
    for (const TensorError& tensor : record->verification.tensors)
      if (std::isfinite(tensor.max_error) && tensor.tolerance > 0)
        worst = std::max(worst, tensor.max_error / tensor.tolerance);
    for (const auto* state : {&record->device_after})
      if (*state && !(*state)->throttle_reasons.empty() && (*state)->throttle_reasons != "none")
        ++throttled;
  }
  if (checked > 0)
    out.push_back(
        fmt::format("Right: {} of {} were checked, and the largest error is {:.0f} % of its "
                    "tolerance.",
                    checked, counted(measured, "measured row"), 100 * worst));
  for (const auto& [status, count] : bad)
    if (status != Status::oom)
      out.push_back(fmt::format("{} {} {}, so no times are shown; the first: {}: {}",
                                counted(count, "row"), count == 1 ? "is" : "are",
                                status_csv_word(status), shown(first[status]->implementation, 40),
                                shown(first[status]->error, 200)));
  if (const std::string note = noise_note(context.rows); !note.empty()) out.push_back(note + ".");
  if (throttled > 0)
    out.push_back(fmt::format("The GPU was throttled in {}: sustained speed, not the card's best.",
                              counted(throttled, "row")));
  if (!context.input.problems.empty())
    out.push_back(fmt::format("{} could not be read; the last section lists {}.",
                              counted(context.input.problems.size(), "line"),
                              context.input.problems.size() == 1 ? "it" : "them"));
}

}  // namespace

Sentences summary_sentences(const ReportContext& context) {
  Sentences out;
  advice(context, out);
  about_speed(context, "attention", "Attention", out);
  about_memory(context, out);
  about_memory_ratio(context, out);
  about_speed(context, "kernel", "Kernels", out);
  about_models(context, out);
  about_roof(context, out);
  about_trust(context, out);
  return out;
}

std::vector<KeyFigure> key_figures(const ReportContext& context) {
  std::vector<KeyFigure> figures;
  const auto rows_with = [&](Status status) {
    return static_cast<size_t>(std::count_if(context.rows.begin(), context.rows.end(),
                                             [&](const Record* r) { return r->status == status; }));
  };
  figures.push_back({fmt::to_string(rows_with(Status::ok)), "rows measured"});
  for (const char* name : {"attention", "kernel"}) {
    const LengthStudy study = length_study(context, name);
    if (study.implementations.size() < 2 || study.implementations.size() > kMostImplementations)
      continue;
    const std::string base = baseline_of(study.implementations);
    for (const char* phase : {"forward", "backward"}) {
      Speedup best;
      std::string best_name;
      for (const std::string& other : study.implementations)
        if (const Speedup s = speedup_of(study, base, other, phase);
            other != base && s.known() && s.mean > best.mean)
          best = s, best_name = other;
      if (best.count > 0)
        figures.push_back({fmt::format("{:.2f}x", best.mean),
                           fmt::format("{} over {}, {}{}", best_name, base, phase,
                                       name == std::string_view("kernel") ? " (kernels)" : "")});
    }
  }
  if (const size_t oom = rows_with(Status::oom); oom > 0)
    figures.push_back({fmt::to_string(oom), "did not fit in memory"});
  if (const size_t wrong = rows_with(Status::wrong) + rows_with(Status::invalid); wrong > 0)
    figures.push_back({fmt::to_string(wrong), "wrong or impossible"});
  return figures;
}

}  // namespace ridgeline
