// Tables of a report in the page: plain ones, cards of facts, and rows that sort and filter.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

std::string plain_table(const Table& table);

// Facts and values as a card; anything else sorts and filters. Of many rows the first are in the
// page, and all of them as data, so that a browser lays out what it shows.
std::string table_html(const ReportTable& table);

}  // namespace ridgeline
