// How far the figures of a report can be trusted: what was checked, what failed, what is noisy.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/page/sections.h"
#include "report/record_cells.h"

namespace ridgeline {

std::vector<std::string> trust_sentences(const ReportContext& context) {
  std::vector<std::string> out;
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
    // A row without samples is an error that was measured, and has none of its own.
    if (!record->series.empty() && !std::ranges::count(context.input.unchecked, record->study))
      ++checkable;
    if (record->verification.checked) ++checked;
    for (const TensorError& tensor : record->verification.tensors)
      if (std::isfinite(tensor.max_error) && tensor.tolerance > 0)
        worst = std::max(worst, tensor.max_error / tensor.tolerance);
    for (const auto* state : {&record->device_after})
      if (*state && !(*state)->throttle_reasons.empty() && (*state)->throttle_reasons != "none")
        ++throttled;
  }
  if (checked > 0)
    out.push_back(fmt::format("Checked: {} of {}; the largest error is {:.0f} % of its tolerance.",
                              checked, counted(checkable, "measured row"), 100 * worst));
  else if (checkable > 0)
    out.push_back(fmt::format("Checked: none of {}, so nothing says that their results are right.",
                              counted(checkable, "measured row")));
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
  return out;
}

ReportSection trust_section(const ReportContext& context) {
  ReportSection section{.id = "trust", .title = "Trust"};
  std::vector<std::string> sentences = trust_sentences(context);
  if (sentences.empty()) return section;
  section.question = "How far can these figures be trusted?";
  section.answer = sentences.front();
  section.certainty = {.level = Certainty::Level::measured,
                       .why = sentences.size() > 1
                                  ? fmt::format("{} to know before quoting one.",
                                                counted(sentences.size() - 1, "thing"))
                                  : "Nothing speaks against them."};
  section.sentences.assign(sentences.begin() + 1, sentences.end());
  return section;
}

}  // namespace ridgeline
