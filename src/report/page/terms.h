// Words of the field that a report explains where they appear for the first time.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "report/page/document.h"

namespace ridgeline {

// Those in the question, the answer or the first picture that `explained` does not hold yet; they
// are added to it.
std::vector<Term> new_terms(const ReportSection& section, std::set<std::string>& explained);

}  // namespace ridgeline
