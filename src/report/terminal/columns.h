// Tables declared by their columns: each has a name and makes its cell of a row.
//
//   return table_of<Point>("roofline", {{"op", [](const Point& p) { return p.op; }},
//                                       {"GB/s", [](const Point& p) { return cell(p.rate); }},
//                                       {"busy us", busy_cell, has_busy_times}},
//                          points);
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "report/terminal/table.h"

namespace ridgeline {

template <class Row>
struct Column {
  std::string name;
  std::function<std::string(const Row&)> cell;
  bool is_shown = true;
};

// `spare`: columns that a narrow screen may leave out, the least important first; those that are
// not shown are skipped. `axes`: those of them that may tell rows apart.
template <class Row, class Rows>
Table table_of(std::string title, const std::vector<Column<Row>>& columns, const Rows& rows,
               const std::vector<std::string>& spare = {},
               const std::vector<std::string>& axes = {}) {
  Table table{.title = std::move(title)};
  for (const Column<Row>& column : columns)
    if (column.is_shown) table.columns.push_back(column.name);
  for (const Row& row : rows) {
    std::vector<std::string>& cells = table.rows.emplace_back();
    for (const Column<Row>& column : columns)
      if (column.is_shown) cells.push_back(column.cell(row));
  }
  for (const std::string& name : spare)
    if (has_column(table, name)) table.spare.push_back(name);
  table.axes = axes;
  return table;
}

// `more` may be columns of a base of Row.
template <class Row, class Base = Row>
void append(std::vector<Column<Row>>& columns, const std::vector<Column<Base>>& more) {
  for (const Column<Base>& column : more)
    columns.push_back({column.name, column.cell, column.is_shown});
}

}  // namespace ridgeline
