// A comparison as a table for the terminal, as comparison.csv and as comparison.md.
#pragma once

#include <string>
#include <vector>

#include "measure/compare.h"
#include "report/terminal/table.h"

namespace ridgeline {

// Makes one line per row and phase; values that all rows share are in the title.
Table comparison_table(const Comparison& comparison);

// Makes a table of all figures, with the keys of workload and settings as columns.
Table comparison_csv(const Comparison& comparison);

// Says how many rows got which verdict, the geometric mean, what is missing, and the notes.
std::vector<std::string> comparison_sentences(const Comparison& comparison);

std::string comparison_markdown(const Comparison& comparison);

}  // namespace ridgeline
