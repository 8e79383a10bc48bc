// Terms that a report explains where they appear for the first time.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "report/page/document.h"

namespace ridgeline {

// Returns the terms in the question, the answer or the first picture that are not in `explained`,
// and adds them to it.
std::vector<Term> new_terms(const ReportSection& section, std::set<std::string>& explained);

}  // namespace ridgeline
