// The findings of a report as sentences, each only if the records support it, and its headline
// figures.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "report/page/axis.h"
#include "report/page/quiet.h"
#include "report/page/roofline_dots.h"
#include "report/page/sections.h"
#include "report/page/winners.h"
#include "report/record_cells.h"
#include "report/verdicts.h"

namespace ridgeline {
namespace {

using Sentences = std::vector<std::string>;

// Says which implementation is fastest, by how much, and why the rest is undecided.
void about_speed(const ReportContext& context, const char* study_name, const char* words,
                 Sentences& out) {
  const LengthStudy& study = length_study(context, study_name);
  if (!can_be_compared(study)) return;
  const std::string base = baseline_of(study.implementations);
  Reasons reasons;
  for (const char* phase : {"forward", "backward"}) {
    const std::vector<Contest> contests = contests_of(study.groups, phase, *context.verdicts);
    const std::string wins = wins_words(contests, phase);
    if (wins.empty()) continue;
    for (const Contest& contest : contests) reasons.add(contest.reasons);
    std::string text = fmt::format("{}: {}.", words, wins);
    for (const std::string& name : study.implementations) {
      if (name == base) continue;
      const Speedup speedup = speedup_of(context, study, base, name, phase);
      if (speedup.count() == 0) continue;
      text += fmt::format(" Against {}, {} is {}.", base, name, speedup.words());
      reasons.add(speedup.reasons());
    }
    out.push_back(std::move(text));
  }
  if (!reasons.empty())
    out.push_back(fmt::format("{}: why comparisons are undecided: {}.", words, reasons.text()));
}

// Says where an implementation runs out of memory, and which others still run there.
void about_memory(const ReportContext& context, Sentences& out) {
  const LengthStudy& study = length_study(context, "attention");
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
        fmt::format("Memory ends for {} at {}{}", name, place_of(*group_of_smallest, length),
                    was_tried(*smallest) ? "" : " by prediction");
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

// Compares peaks at the longest length of the baseline: its own, and the least of the others.
void about_memory_ratio(const ReportContext& context, Sentences& out) {
  const LengthStudy& study = length_study(context, "attention");
  if (!can_be_compared(study)) return;
  const std::string base = baseline_of(study.implementations);
  const auto peak_of = [](const Record* record) {
    return record && record->status == Status::ok && record->memory.peak
               ? record->memory.peak->count
               : 0;
  };
  std::string text;
  int64_t longest = 0;
  for (const LengthGroup& group : study.groups)
    for (const int64_t length : group.lengths()) {
      const int64_t before = peak_of(group.find(base, length));
      if (before <= 0 || length <= longest) continue;
      std::string leanest;
      int64_t least = before;
      for (const std::string& name : group.implementations)
        if (const int64_t peak = peak_of(group.find(name, length)); peak > 0 && peak < least)
          least = peak, leanest = name;
      longest = length;
      text = leanest.empty()
                 ? fmt::format("At {} none needs less memory than {}: {}.", place_of(group, length),
                               base, to_string(Bytes{before}))
                 : fmt::format("At {} {} needs {} where {} needs {}: {:.1f}x less.",
                               place_of(group, length), leanest, to_string(Bytes{least}), base,
                               to_string(Bytes{before}),
                               static_cast<double>(before) / static_cast<double>(least));
    }
  if (!text.empty()) out.push_back(text);
}

void advice(const ReportContext& context, Sentences& out) {
  const LengthStudy& study = length_study(context, "attention");
  if (!can_be_compared(study)) return;
  std::vector<Contest> contests = contests_of(study.groups, "forward", *context.verdicts);
  for (Contest& contest : contests_of(study.groups, "backward", *context.verdicts))
    contests.push_back(std::move(contest));
  if (const std::string text = advice_of(std::move(contests)).text; !text.empty())
    out.push_back(fmt::format("What to do: {}.", text));
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
  Reasons reasons;
  for (const std::string& name : names) {
    if (name == base) continue;
    for (const Words& scenario :
         {Words{"forward", "forward"}, Words{"fwd_bwd", "forward and backward"},
          Words{"full_step", "the full training step"}}) {
      Speedup speedup(*context.verdicts);
      for (const auto& [model, rows] : by_model) {
        const auto before = rows.find(base), after = rows.find(name);
        if (before != rows.end() && after != rows.end())
          speedup.add(before->second, after->second, scenario.series,
                      model.substr(0, model.find('|')));
      }
      if (speedup.count() == 0) continue;
      out.push_back(fmt::format("Transformers: against {}, {} in {} is {}.", shown(base, 40),
                                shown(name, 40), scenario.text, speedup.words()));
      reasons.add(speedup.reasons());
    }
  }
  if (!reasons.empty())
    out.push_back(fmt::format("Transformers: why comparisons are undecided: {}.", reasons.text()));
}

void about_roof(const ReportContext& context, Sentences& out) {
  size_t above = 0, above_unknown = 0;
  std::vector<const RooflineDot*> dots;
  for (const RooflineDot& dot : context.dots) {
    dots.push_back(&dot);
    if (dot.roof && dot.flops_per_s > kCeilingSlack * *dot.roof)
      ++(dot.path_is_known ? above : above_unknown);
  }
  const RooflineDot* best = closest_to_roof(dots);
  if (best)
    out.push_back(fmt::format(
        "Distance to the roof: the best pass{} is {} {} with {}, {:.0f} % of "
        "what the machine allows at its intensity ({}).",
        preferred_words(dots, *best), shown(best->record->implementation, 40),
        phase_words(best->series), quantity_text(Quantity::flops_per_s, best->flops_per_s),
        100 * best->flops_per_s / *best->roof, best->path));
  if (above > 0)
    out.push_back(fmt::format(
        "Ceilings: {} ran faster than the ceilings of their machine: measure those again while "
        "nothing else runs.",
        counted(above, "timing")));
  if (above_unknown > 0)
    out.push_back(fmt::format(
        "Ceilings: {} ran faster than the ceiling of their dtype, and their records do not say "
        "which arithmetic ran: another, such as three 16-bit products for one of fp32, has a "
        "higher ceiling.",
        counted(above_unknown, "timing")));
}

// The largest decided speedup: "2.50x", "flash over naive, forward at S 4096, d 16".
std::optional<KeyFigure> largest_decided(const ReportContext& context, const LengthStudy& study,
                                         const std::string& base, const char* phase) {
  double most = 1;
  std::optional<KeyFigure> figure;
  for (const LengthGroup& group : study.groups)
    for (const LengthRow& row : group.rows) {
      const Record* before = group.find(base, row.seq_len);
      if (!before || row.record == before) continue;
      const double slow = median_of(*before, phase).value_or(0),
                   fast = median_of(*row.record, phase).value_or(0);
      if (!(fast > 0 && slow > most * fast)) continue;
      if (context.verdicts->between(*before, *row.record, phase).verdict != Verdict::faster)
        continue;
      most = slow / fast;
      figure = {times_text(most), fmt::format("{} over {}, {} at {}", row.implementation, base,
                                              phase, place_of(group, row.seq_len))};
    }
  return figure;
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
  for (std::string& sentence : trust_sentences(context)) out.push_back(std::move(sentence));
  return out;
}

std::vector<KeyFigure> key_figures(const ReportContext& context) {
  std::vector<KeyFigure> figures;
  const auto rows_with = [&](Status status) {
    return static_cast<size_t>(std::count_if(context.rows.begin(), context.rows.end(),
                                             [&](const Record* r) { return r->status == status; }));
  };
  // A row that has a cost and no samples was counted, not measured.
  const auto counted_only = std::ranges::count_if(context.rows, [](const Record* record) {
    return record->status == Status::ok && record->cost && record->series.empty();
  });
  figures.push_back(
      {fmt::to_string(rows_with(Status::ok) - static_cast<size_t>(counted_only)), "rows measured"});
  for (const char* name : {"attention", "kernel"}) {
    const LengthStudy& study = length_study(context, name);
    if (!can_be_compared(study)) continue;
    const std::string base = baseline_of(study.implementations);
    for (const char* phase : {"forward", "backward"}) {
      double best = 0;
      std::string best_name;
      for (const std::string& other : study.implementations) {
        if (other == base) continue;
        const Speedup speedup = speedup_of(context, study, base, other, phase);
        if (speedup.mostly_decided() && speedup.mean() > best)
          best = speedup.mean(), best_name = other;
      }
      // If no mean is decided, shows the largest decided speedup, of forward only.
      if (best == 0 && phase == std::string_view("forward"))
        if (const auto decided = largest_decided(context, study, base, phase))
          figures.push_back(*decided);
      if (best > 0)
        figures.push_back({times_text(best),
                           fmt::format("{} over {}, {}{}", best_name, base, phase,
                                       name == std::string_view("kernel") ? " (kernels)" : "")});
    }
  }
  const auto untried = static_cast<size_t>(std::ranges::count_if(
      context.rows, [](const Record* r) { return r->status == Status::oom && !was_tried(*r); }));
  if (const size_t oom = rows_with(Status::oom) - untried; oom > 0)
    figures.push_back({fmt::to_string(oom), "ran out of memory"});
  if (untried > 0) figures.push_back({fmt::to_string(untried), "would not fit (predicted)"});
  if (const OtherWork work = other_work(context, {}); work.disturbed > 0)
    figures.push_back(
        {fmt::format("{} of {}", work.disturbed, work.timed), "timed rows beside other work"});
  if (const size_t wrong = rows_with(Status::wrong) + rows_with(Status::invalid); wrong > 0)
    figures.push_back({fmt::to_string(wrong), "wrong or impossible"});
  return figures;
}

}  // namespace ridgeline
