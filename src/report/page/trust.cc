// How far the figures of a report can be trusted: what was checked, failed, disturbed, and noisy.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/sort_by.h"
#include "report/page/quiet.h"
#include "report/page/roofline_dots.h"
#include "report/page/sections.h"
#include "report/record_cells.h"

namespace ridgeline {
namespace {

// Studies with timed rows, in the order of the rows.
std::vector<std::string> timed_studies(const ReportContext& context) {
  constexpr size_t kMostStudies = 24;
  std::vector<std::string> studies;
  std::set<std::string> known;
  for (const Record* record : context.rows)
    if (studies.size() < kMostStudies && known.insert(record->study).second)
      studies.push_back(record->study);
  std::erase_if(studies, [&](const std::string& study) {
    return study.empty() || other_work(context, study).timed == 0;
  });
  return studies;
}

// The share of rows that other work disturbed, by study.
Chart quiet_chart(const ReportContext& context) {
  Chart chart{.kind = Chart::Kind::bars,
              .id = "quiet-rows",
              .title = "Rows timed beside other work",
              .description =
                  "The share of each study's timed rows beside which other work ran on the "
                  "processors."};
  ChartSeries series{.name = "beside other work", .colour = 5};
  bool is_known = false;
  for (const std::string& study : timed_studies(context)) {
    const OtherWork work = other_work(context, study);
    is_known = is_known || work.unknown < work.timed;
    const double share =
        100 * static_cast<double>(work.disturbed) / static_cast<double>(work.timed);
    const std::string text = work.unknown == work.timed
                                 ? "not recorded"
                                 : fmt::format("{} of {}", work.disturbed, work.timed);
    series.points.push_back({.x = static_cast<double>(chart.categories.size()),
                             .y = share,
                             .text = fmt::format("{}: {}", study_title(context, study), text),
                             .value = text});
    chart.categories.push_back(study_title(context, study));
  }
  if (!is_known) return chart;  // there is nothing to show
  chart.series = {std::move(series)};
  chart.y = {.label = "share of timed rows", .min = 0, .max = 100, .better = Better::lower};
  for (const int percent : {0, 25, 50, 75, 100})
    chart.y.ticks.push_back({static_cast<double>(percent), fmt::format("{} %", percent)});
  return chart;
}

ReportTable quiet_table(const ReportContext& context) {
  ReportTable table{.title = "What disturbed which study",
                    .columns = {"study", "timed rows", "beside other work", "most processors taken",
                                "load before", "speed changed", "not recorded"}};
  const auto number = [](size_t count) {
    return ReportCell{fmt::to_string(count), static_cast<double>(count)};
  };
  for (const std::string& study : timed_studies(context)) {
    const OtherWork work = other_work(context, study);
    table.rows.push_back(
        {{study_title(context, study), {}},
         number(work.timed),
         number(work.disturbed),
         work.disturbed > 0
             ? ReportCell{fmt::format("{:.2g} of {}", work.most_processors, work.processors),
                          work.most_processors}
             : ReportCell{},
         {fmt::format("{:.1f}", work.most_load), work.most_load},
         number(work.speed_changed),
         number(work.unknown)});
  }
  return table;
}

// The rows to measure again, the most disturbed first.
ReportTable disturbed_table(const ReportContext& context) {
  constexpr size_t kMostRows = 500;
  ReportTable table{.title = "Rows beside other work",
                    .columns = {"study", "implementation", "size", "processors taken", "by"}};
  std::vector<const Record*> rows;
  for (const Record* record : context.rows)
    if (is_disturbed(*record) && is_timed(*record)) rows.push_back(record);
  sort_by_falling(rows, [](const Record* record) { return processors_taken(*record); });
  for (const Record* record : rows) {
    if (table.rows.size() == kMostRows) break;
    const Disturbance& other = *record->disturbance;
    const double taken = processors_taken(*record);
    table.rows.push_back(
        {{study_title(context, record->study), {}},
         {shown(record->implementation, 60), {}},
         {size_words(*record), {}},
         {fmt::format("{:.2g} of {}", taken, other.processors), taken},
         {other.stolen_cores > other.other_cores ? "other virtual machines" : "other processes",
          {}}});
    table.details.push_back({{"command", shown(record->command, 2000)}});
  }
  return table;
}

std::string disturbed_sentence(const OtherWork& work) {
  const std::string words = other_work_words(work);
  if (words.empty()) return {};
  // The reader cannot stop other virtual machines, so these rows are counted separately.
  return fmt::format(
      "Disturbed: {}{}.", words,
      work.stolen > 0 ? fmt::format(" ({} by other virtual machines)", work.stolen) : "");
}

std::string quiet_sentence(const OtherWork& work) {
  if (work.disturbed > 0 || work.timed == work.unknown) return {};
  return fmt::format("Quiet: no other work ran beside {}.",
                     work.unknown == 0
                         ? fmt::format("any of {}", counted(work.timed, "timed row"))
                         : fmt::format("{} of {}; the others do not say", work.timed - work.unknown,
                                       counted(work.timed, "timed row")));
}

std::string speed_sentence(const OtherWork& work) {
  if (work.speed_changed == 0) return {};
  return fmt::format(
      "Speed: in {} of {} the processors themselves were more than {:.3g}x faster or "
      "slower after the samples than before.",
      work.speed_changed, counted(work.timed, "timed row"), kSpeedApart);
}

// Correctness and disturbance are the answer of the section; the other sentences are notes.
struct TrustSentence {
  std::string text = {};
  bool is_answer = false;
};

std::vector<TrustSentence> sentences_on_trust(const ReportContext& context) {
  std::vector<TrustSentence> out;
  const auto add = [&](std::string text, bool is_answer = false) {
    if (!text.empty()) out.push_back({std::move(text), is_answer});
  };
  size_t checkable = 0, checked = 0, throttled = 0;
  double worst = 0;
  std::map<Status, size_t> bad;
  std::map<Status, const Record*> first;
  for (const Record* record : context.rows) {
    if (record->status != Status::ok) {
      ++bad[record->status];
      first.try_emplace(record->status, record);
      continue;
    }
    // A row without samples reports a measured error, and has no result to check.
    if (!record->series.empty() && !std::ranges::count(context.input.unchecked, record->study))
      ++checkable;
    if (record->verification.checked) ++checked;
    for (const TensorError& tensor : record->verification.tensors)
      if (std::isfinite(tensor.max_error) && tensor.tolerance > 0)
        worst = std::max(worst, tensor.max_error / tensor.tolerance);
    const auto& state = record->device_after;
    if (state && !state->throttle_reasons.empty() && state->throttle_reasons != "none") ++throttled;
  }
  const OtherWork work = other_work(context, {});
  add(disturbed_sentence(work), /*is_answer=*/true);
  if (checked > 0)
    add(fmt::format("Checked: {} of {}; the largest error is {:.0f} % of its tolerance.", checked,
                    counted(checkable, "measured row"), 100 * worst),
        /*is_answer=*/true);
  else if (checkable > 0)
    add(fmt::format("Checked: none of {}, so nothing says that their results are right.",
                    counted(checkable, "measured row")),
        /*is_answer=*/true);
  for (const auto& [status, count] : bad)
    if (status != Status::oom)
      add(fmt::format("{} {} {}, so no times are shown; the first: {}: {}", counted(count, "row"),
                      count == 1 ? "is" : "are", status_csv_word(status),
                      shown(first[status]->implementation, 40), shown(first[status]->error, 200)));
  add(quiet_sentence(work), /*is_answer=*/true);
  add(speed_sentence(work));
  if (const std::string note = noise_note(context.rows); !note.empty()) add(note + ".");
  if (throttled > 0)
    add(fmt::format("The GPU was throttled in {}: sustained speed, not the card's best.",
                    counted(throttled, "row")));
  if (!context.input.problems.empty())
    add(fmt::format("{} could not be read; the last section lists {}.",
                    counted(context.input.problems.size(), "line"),
                    context.input.problems.size() == 1 ? "it" : "them"));
  if (!out.empty()) out.front().is_answer = true;
  return out;
}

}  // namespace

std::vector<std::string> trust_sentences(const ReportContext& context) {
  std::vector<std::string> out;
  for (TrustSentence& sentence : sentences_on_trust(context))
    out.push_back(std::move(sentence.text));
  return out;
}

ReportSection trust_section(const ReportContext& context) {
  ReportSection section{.id = "trust", .title = "Trust"};
  for (const auto& [text, is_answer] : sentences_on_trust(context))
    if (is_answer)
      section.answer += (section.answer.empty() ? "" : " ") + text;
    else
      section.sentences.push_back(text);
  if (section.answer.empty()) return section;
  section.question = "How far can these figures be trusted?";
  const bool was_checked = std::ranges::any_of(context.rows, [](const Record* record) {
    return record->status == Status::ok && record->verification.checked;
  });
  const bool any_disturbed = other_work(context, {}).disturbed > 0;
  section.certainty = {
      .level = any_disturbed ? Certainty::Level::disturbed : Certainty::Level::measured,
      .why = any_disturbed ? "Counted figures hold. Repeat the rows listed below with --runs 5 on "
                             "a quiet machine."
             : !section.sentences.empty()
                 ? fmt::format("{} to know.", counted(section.sentences.size(), "further thing"))
             : was_checked ? "Nothing speaks against them."
                           : "Know that before quoting one."};
  if (Chart chart = quiet_chart(context); !chart.series.empty()) {
    section.views.push_back({.charts = {std::move(chart)}});
    if (any_disturbed) section.tables.push_back(disturbed_table(context));
    section.tables.push_back(quiet_table(context));
  }
  return section;
}

}  // namespace ridgeline
