// Which rows were timed while other work ran: the certainty of times depends on it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "report/page/rows.h"

namespace ridgeline {

// Counts of rows that have times.
struct OtherWork {
  size_t timed = 0;            // all rows with times
  size_t disturbed = 0;        // rows during which other work used the processors
  size_t stolen = 0;           // disturbed rows in which other virtual machines took the most
  size_t unknown = 0;          // rows without a record of other work
  size_t speed_changed = 0;    // rows whose processors had another speed after the samples
  double most_processors = 0;  // largest number of processors that others used, mean over a row
  int processors = 0;          // processors of that machine
  double most_load = 0;        // largest load average before a study
};

// Whether it has times to show: not if it failed.
bool is_timed(const Record& record);
bool is_disturbed(const Record& record);
// Returns how many processors other work used during the row, on average; 0 if unknown.
double processors_taken(const Record& record);

// Counts rows of one study, or of all if the name is empty.
OtherWork other_work(const ReportContext& context, std::string_view study);

// "other work took up to 1.9 of 2 processors beside 40 of 130 timed rows"; empty if no row is
// disturbed.
std::string other_work_words(const OtherWork& work);

// Returns the certainty of times without a comparison: disturbed if other work ran during rows of
// the study, else measured.
Certainty certainty_of_times(const ReportContext& context, std::string_view study, std::string why);

}  // namespace ridgeline
