// Which rows were timed beside other work: what the certainty of times depends on.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "report/page/rows.h"

namespace ridgeline {

// Of rows that have times.
struct OtherWork {
  size_t timed = 0;            // all of them
  size_t disturbed = 0;        // beside which others used the processors,
  size_t stolen = 0;           // most of them other virtual machines
  size_t unknown = 0;          // that do not say
  size_t speed_changed = 0;    // whose processors were another speed after the samples than before
  double most_processors = 0;  // that others used in the mean of a row, at most
  int processors = 0;          // of how many
  double most_load = 0;        // processes that wanted to run before a study began
};

bool is_timed(const Record& record);
bool is_disturbed(const Record& record);
// That others had beside a row, in the mean; 0: it does not say.
double processors_taken(const Record& record);

// Of one study; an empty name: of all.
OtherWork other_work(const ReportContext& context, std::string_view study);

// "other work took up to 1.9 of 2 processors beside 40 of 130 timed rows"; empty: none is known.
std::string other_work_words(const OtherWork& work);

// Of times that nothing is compared with: measured, or disturbed where other work ran beside the
// rows of that study.
Certainty certainty_of_times(const ReportContext& context, std::string_view study, std::string why);

}  // namespace ridgeline
