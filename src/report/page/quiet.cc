#include "report/page/quiet.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridgeline {

bool is_timed(const Record& record) {
  // A row that ran out of memory keeps the times of what fitted.
  return (record.status == Status::ok || record.status == Status::oom) &&
         (!record.series.empty() || record.study == "profile");
}

double processors_taken(const Record& record) {
  return record.disturbance ? record.disturbance->other_cores + record.disturbance->stolen_cores
                            : 0;
}

bool is_disturbed(const Record& record) {
  return record.disturbance && !record.disturbance->quiet();
}

OtherWork other_work(const ReportContext& context, std::string_view study) {
  OtherWork work;
  for (const Record* record : context.rows) {
    if ((!study.empty() && record->study != study) || !is_timed(*record)) continue;
    ++work.timed;
    work.most_load = std::max(work.most_load, record->machine.load_average.value_or(0));
    if (record->speed_before && record->speed_after &&
        speed_gap(*record->speed_before, *record->speed_after).is_apart())
      ++work.speed_changed;
    if (!record->disturbance) {
      ++work.unknown;
      continue;
    }
    if (!is_disturbed(*record)) continue;
    const Disturbance& other = *record->disturbance;
    ++work.disturbed;
    work.stolen += other.stolen_cores > other.other_cores;
    const double taken = processors_taken(*record);
    if (taken > work.most_processors) {
      work.most_processors = taken;
      work.processors = other.processors;
    }
  }
  return work;
}

std::string other_work_words(const OtherWork& work) {
  if (work.disturbed == 0) return {};
  return fmt::format("other work took up to {:.2g} of {} processors beside {} of {}",
                     std::min(work.most_processors, static_cast<double>(work.processors)),
                     work.processors, work.disturbed, counted(work.timed, "timed row"));
}

Certainty certainty_of_times(const ReportContext& context, std::string_view study,
                             std::string why) {
  const OtherWork work = other_work(context, study);
  if (work.disturbed == 0) return {.level = Certainty::Level::measured, .why = std::move(why)};
  return {.level = Certainty::Level::disturbed,
          .why = study.empty()  // the section on trust says how many
                     ? std::move(why)
                     : fmt::format("{} Beside other work: {} of {}.", why, work.disturbed,
                                   counted(work.timed, "row"))};
}

}  // namespace ridgeline
