#include "report/page/html_table.h"

#include <fmt/format.h>

#include "base/json.h"
#include "report/page/html_escape.h"

namespace ridgeline {
namespace {

constexpr size_t kRowsInPage = 100;
constexpr size_t kFewColumns = 6;   // that fit a window of 768 pixels
constexpr size_t kManyColumns = 9;  // more need a smaller font at 1280 pixels

std::string details_cell(const RowDetails& details) {
  std::string out = "<td><details><summary>command</summary><dl>";
  for (const auto& [label, text] : details) {
    const char* tag = label == "command" ? "code" : "span";
    out += fmt::format("<dt>{}</dt><dd><{}>{}</{}></dd>", html_escape(label), tag,
                       html_escape(text), tag);
  }
  return out + "</dl></details></td>";
}

// Finds the columns of numbers, which are right-aligned and sorted by value.
std::vector<bool> number_columns(const ReportTable& table) {
  std::vector<bool> is_number(table.columns.size(), false);
  for (const auto& row : table.rows)
    for (size_t i = 0; i < row.size(); ++i)
      if (row[i].number) is_number[i] = true;
  return is_number;
}

std::string facts_card(const ReportTable& table) {
  std::string out = fmt::format("<div class=\"card\"><h3>{}</h3><dl>\n", html_escape(table.title));
  for (const auto& row : table.rows)
    out +=
        fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_escape(row[0].text), html_escape(row[1].text));
  return out + "</dl></div>\n";
}

// Every row as [texts, numbers, details]; the script creates elements for those that it shows.
std::string rows_json(const ReportTable& table) {
  Json rows = Json::array();
  for (size_t r = 0; r < table.rows.size(); ++r) {
    Json texts = Json::array(), numbers = Json::array(), details = Json::array();
    for (const ReportCell& cell : table.rows[r]) {
      texts.push_back(cell.text);
      numbers.push_back(cell.number ? Json(*cell.number) : Json());
    }
    if (!table.details.empty())
      for (const auto& [label, text] : table.details[r]) details.push_back({label, text});
    rows.push_back({std::move(texts), std::move(numbers), std::move(details)});
  }
  return script_safe_json(rows.dump());
}

// Lets long names of kernels and scopes break after their parts.
std::string breakable(const std::string& escaped) {
  constexpr size_t kLong = 20;
  if (escaped.size() < kLong) return escaped;
  std::string out;
  for (const char c : escaped) {
    out += c;
    if (c == '_' || c == '.') out += "<wbr>";
  }
  return out;
}

std::string row_html(const ReportTable& table, size_t r, const std::vector<bool>& is_number) {
  std::string out = "<tr>";
  for (size_t i = 0; i < table.rows[r].size(); ++i) {
    const ReportCell& cell = table.rows[r][i];
    out += is_number[i] ? "<td class=\"number\"" : "<td";
    if (cell.number) out += fmt::format(" data-key=\"{}\"", *cell.number);
    out += ">" + breakable(html_escape(cell.text)) + "</td>";
  }
  if (!table.details.empty()) out += details_cell(table.details[r]);
  return out + "</tr>\n";
}

std::string sortable_table(const ReportTable& table) {
  const std::vector<bool> is_number = number_columns(table);
  std::string out = fmt::format(
      "<div class=\"rows\"><h3>{0}</h3>\n<p class=\"filter\"><label>Filter <input type=\"search\" "
      "placeholder=\"words, or column>number\"></label> "
      "<span class=\"count\" role=\"status\">{1} rows</span> "
      "<button type=\"button\" class=\"all\" hidden>Show all</button></p>\n"
      "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{0}\">"
      "<table class=\"sortable{2}\"><thead><tr>",
      html_escape(table.title), table.rows.size(),
      table.columns.size() > kManyColumns  ? " many wide"
      : table.columns.size() > kFewColumns ? " many"
                                           : "");
  for (size_t i = 0; i < table.columns.size(); ++i)
    out += fmt::format("<th scope=\"col\"{}><button type=\"button\">{}</button></th>",
                       is_number[i] ? " class=\"number\"" : "", html_escape(table.columns[i]));
  if (!table.details.empty()) out += "<th scope=\"col\">details</th>";
  out += "</tr></thead><tbody>\n";
  for (size_t r = 0; r < std::min(table.rows.size(), kRowsInPage); ++r)
    out += row_html(table, r, is_number);
  out += "</tbody></table></div>";
  if (table.rows.size() > kRowsInPage)
    out += fmt::format("<script type=\"application/json\">{}</script>", rows_json(table));
  return out + "</div>\n";
}

}  // namespace

std::string plain_table(const Table& table) {
  std::string out = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{}\"><table "
      "class=\"plain\"><thead><tr>",
      html_escape(table.title.empty() ? "Numbers" : "Numbers: " + table.title));
  for (const std::string& column : table.columns)
    out += column.empty() ? "<td></td>" : "<th scope=\"col\">" + html_escape(column) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      out += fmt::format("<{0}>{1}</{2}>", i == 0 ? "th scope=\"row\"" : "td", html_escape(row[i]),
                         i == 0 ? "th" : "td");
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>";
}

std::string table_html(const ReportTable& table) {
  return table.columns.size() == 2 && table.details.empty() ? facts_card(table)
                                                            : sortable_table(table);
}

}  // namespace ridgeline
