// Verdicts for people and for scripts: a table for the terminal, comparison.csv, comparison.md.
#pragma once

#include <string>
#include <vector>

#include "measure/compare.h"
#include "report/terminal/table.h"

namespace ridgeline {

// One line per row and phase; what all rows have in common stands in the title.
Table comparison_table(const Comparison& comparison);

// Every figure of every row, with the names of the workload as columns.
Table comparison_csv(const Comparison& comparison);

// How many rows got which verdict, the geometric mean, what is missing, and what to know.
std::vector<std::string> comparison_sentences(const Comparison& comparison);

// The table and the sentences as one Markdown page.
std::string comparison_markdown(const Comparison& comparison);

}  // namespace ridgeline
