// Tables of a report as HTML: plain tables, cards of facts, and tables that sort and filter.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

std::string plain_table(const Table& table);

// Returns facts and values as a card, any other table as one that sorts and filters. If there are
// many rows, the page holds the first, and all as JSON, so that it lays out only what it shows.
std::string table_html(const ReportTable& table);

}  // namespace ridgeline
