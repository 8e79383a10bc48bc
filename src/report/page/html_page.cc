#include "report/page/html_page.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/sha256.h"
#include "report/page/html_assets.h"
#include "report/page/html_escape.h"
#include "report/page/palette.h"
#include "report/page/svg_chart.h"

namespace ridgeline {
namespace {

std::string_view asset(std::string_view name) {
  for (const EmbeddedText& each : report_assets())
    if (each.name == name) return each.text;
  throw Error(ErrorKind::internal, fmt::format("the build embedded no '{}'", name));
}

// The only scripts that the page lets run are these, whatever text gets into it.
std::string script_source(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const Sha256::Digest digest = sha256(text);
  std::string out = "'sha256-";
  for (size_t i = 0; i < digest.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (i + j < digest.size() ? digest[i + j] : 0u);
    for (size_t j = 0; j < 4; ++j)
      out += i + j <= digest.size() ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
  }
  return out + "'";
}

Json axis_json(const Axis& axis) {
  Json ticks = Json::array();
  for (const Tick& tick : axis.ticks) ticks.push_back({tick.value, tick.text});
  return {{"label", axis.label},
          {"log", axis.log},
          {"min", axis.min},
          {"max", axis.max},
          {"ticks", ticks}};
}

constexpr const char* mark_name(ChartSeries::Mark mark) {
  using enum ChartSeries::Mark;
  switch (mark) {
    case line_and_points:
      return "line_and_points";
    case line:
      return "line";
    case points:
      return "points";
    case rings:
      return "rings";
    case crosses:
      return "crosses";
    case steps:
      return "steps";
    case area:
      return "area";
  }
  return "points";
}

Json chart_json(const Chart& chart) {
  Json all = Json::array();
  for (const ChartSeries& series : chart.series) {
    Json points = Json::array();
    for (const ChartPoint& point : series.points) points.push_back({point.x, point.y, point.text});
    const SeriesColour& colour = series_colour(series.colour);
    all.push_back({{"name", series.name},
                   {"mark", mark_name(series.mark)},
                   {"colour", {colour.light, colour.dark}},
                   {"points", std::move(points)}});
  }
  Json json = {{"kind", chart.kind == Chart::Kind::xy     ? "xy"
                        : chart.kind == Chart::Kind::bars ? "bars"
                                                          : "stacked_bars"},
               {"x", axis_json(chart.x)},
               {"y", axis_json(chart.y)},
               {"categories", chart.categories},
               {"series", std::move(all)}};
  if (chart.reference) json["reference"] = *chart.reference;
  return json;
}

std::string script_json(const Json& json) {
  return script_safe_json(json.dump());
}

std::string plain_table(const Table& table) {
  std::string out = "<table class=\"plain\"><thead><tr>";
  for (const std::string& column : table.columns)
    out += "<th scope=\"col\">" + html_escape(column) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      out += fmt::format("<{0}>{1}</{2}>", i == 0 ? "th scope=\"row\"" : "td", html_escape(row[i]),
                         i == 0 ? "th" : "td");
    out += "</tr>\n";
  }
  return out + "</tbody></table>";
}

// The picture is the chart of readers without scripts, and of print; the script draws the other.
std::string figure(const Chart& chart, const std::string& caption) {
  return fmt::format(
      "<figure class=\"chart {}\"><h3>{}</h3>\n"
      "<div class=\"canvas\"><canvas role=\"img\" aria-label=\"{}\"></canvas></div>\n"
      "<div class=\"picture\">{}</div>\n"
      "<details><summary>Numbers</summary><div class=\"scroll\">{}</div></details>\n"
      "<script type=\"application/json\">{}</script></figure>\n",
      chart.kind == Chart::Kind::xy ? "xy" : "bars", html_escape(chart.title),
      html_escape(chart.title + ". " + chart.description + " The numbers follow as a table."),
      to_svg(chart, caption), plain_table(chart_table(chart)), script_json(chart_json(chart)));
}

std::string views(const ReportSection& section) {
  if (section.views.empty()) return {};
  std::string out;
  if (section.views.size() > 1) {
    out += fmt::format("<p class=\"pick\"><label>Show <select data-views=\"{0}\">", section.id);
    for (size_t i = 0; i < section.views.size(); ++i)
      out += fmt::format("<option value=\"{}\">{}</option>", i, html_escape(section.views[i].name));
    out += "</select></label></p>\n";
  }
  for (size_t i = 0; i < section.views.size(); ++i) {
    out += fmt::format("<div class=\"charts\" data-view=\"{}\"{}>\n", i, i == 0 ? "" : " hidden");
    for (const Chart& chart : section.views[i].charts) out += figure(chart, section.views[i].name);
    out += "</div>\n";
  }
  return out;
}

std::string details_cell(const RowDetails& details) {
  std::string out = "<td><details><summary>command</summary><dl>";
  for (const auto& [label, text] : details) {
    const char* tag = label == "command" ? "code" : "span";
    out += fmt::format("<dt>{}</dt><dd><{}>{}</{}></dd>", html_escape(label), tag,
                       html_escape(text), tag);
  }
  return out + "</dl></details></td>";
}

// A column of numbers is aligned right and sorted as such.
std::vector<bool> number_columns(const ReportTable& table) {
  std::vector<bool> is_number(table.columns.size(), false);
  for (const auto& row : table.rows)
    for (size_t i = 0; i < row.size(); ++i)
      if (row[i].number) is_number[i] = true;
  return is_number;
}

std::string facts_table(const ReportTable& table) {
  std::string out = fmt::format("<div class=\"card\"><h3>{}</h3><dl>\n", html_escape(table.title));
  for (const auto& row : table.rows)
    out +=
        fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_escape(row[0].text), html_escape(row[1].text));
  return out + "</dl></div>\n";
}

std::string sortable_table(const ReportTable& table) {
  const std::vector<bool> is_number = number_columns(table);
  std::string out = fmt::format(
      "<div class=\"rows\"><h3>{0}</h3>\n<p class=\"filter\"><label>Filter <input type=\"search\" "
      "placeholder=\"words, or column>number\" aria-describedby=\"filter-help\"></label> "
      "<span class=\"count\" role=\"status\">{1} rows</span> "
      "<button type=\"button\" class=\"all\" hidden>Show all</button></p>\n"
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">"
      "<table class=\"sortable\"><thead><tr>",
      html_escape(table.title), table.rows.size());
  for (size_t i = 0; i < table.columns.size(); ++i)
    out += fmt::format("<th scope=\"col\"{}><button type=\"button\">{}</button></th>",
                       is_number[i] ? " class=\"number\"" : "", html_escape(table.columns[i]));
  if (!table.details.empty()) out += "<th scope=\"col\">details</th>";
  out += "</tr></thead><tbody>\n";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    out += "<tr>";
    for (size_t i = 0; i < table.rows[r].size(); ++i) {
      const ReportCell& cell = table.rows[r][i];
      out += is_number[i] ? "<td class=\"number\"" : "<td";
      if (cell.number) out += fmt::format(" data-key=\"{}\"", *cell.number);
      out += ">" + html_escape(cell.text) + "</td>";
    }
    if (!table.details.empty()) out += details_cell(table.details[r]);
    out += "</tr>\n";
  }
  return out + "</tbody></table></div></div>\n";
}

std::string list(const std::vector<std::string>& sentences, const char* css_class) {
  if (sentences.empty()) return {};
  std::string out = fmt::format("<ul class=\"{}\">\n", css_class);
  for (const std::string& sentence : sentences) {
    // What a verdict is about stands out: "Attention: ...".
    constexpr size_t kLongestLead = 24;
    const size_t colon = sentence.find(": ");
    const size_t lead = colon <= kLongestLead ? colon + 1 : 0;
    out += "<li>";
    if (lead > 0) out += "<strong>" + html_escape(sentence.substr(0, lead)) + "</strong>";
    out += html_escape(sentence.substr(lead)) + "</li>\n";
  }
  return out + "</ul>\n";
}

std::string section_html(const ReportSection& section) {
  std::string out = fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n",
      html_escape(section.id), html_escape(section.title));
  for (const std::string& sentence : section.lead)
    out += fmt::format("<p class=\"lead\">{}</p>\n", html_escape(sentence));
  out += views(section);
  out += list(section.sentences, "notes");
  for (const ReportTable& table : section.tables) {
    const std::string shown = table.columns.size() == 2 && table.details.empty()
                                  ? facts_table(table)
                                  : sortable_table(table);
    out +=
        section.folds_tables
            ? fmt::format("<details class=\"fold\"><summary>All {} rows</summary>\n{}</details>\n",
                          table.rows.size(), shown)
            : shown;
  }
  return out + "</section>\n";
}

}  // namespace

std::string to_html(const ReportDocument& document) {
  const std::string_view charts = asset("Chart.min.js"), script = asset("report.js");
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src {} {}; img-src data:\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n"
      "<a class=\"skip\" href=\"#summary\">Skip to the "
      "summary</a>\n<header>\n<h1>{}</h1>\n<p>{}</p>\n",
      script_source(charts), script_source(script), html_escape(document.title),
      asset("report.css"), html_escape(document.title), html_escape(document.subtitle));
  out += "<nav aria-label=\"Sections\">";
  for (const ReportSection& section : document.sections)
    out +=
        fmt::format("<a href=\"#{}\">{}</a> ", html_escape(section.id), html_escape(section.title));
  out +=
      "</nav>\n</header>\n<main>\n<section id=\"summary\" aria-labelledby=\"summary-title\">\n"
      "<h2 id=\"summary-title\">Summary</h2>\n";
  if (!document.figures.empty()) {
    out += "<div class=\"figures\">\n";
    for (const KeyFigure& each : document.figures)
      out += fmt::format("<p><strong>{}</strong> <span>{}</span></p>\n", html_escape(each.value),
                         html_escape(each.what));
    out += "</div>\n";
  }
  out += list(document.summary, "verdicts") + "</section>\n";
  for (const ReportSection& section : document.sections) out += section_html(section);
  out += "</main>\n<footer><p>" + html_escape(document.footer) +
         "</p>\n<p id=\"filter-help\">Filters: words must all occur in a row; "
         "<code>seq_len&gt;1000</code>, "
         "<code>status=OOM</code> and <code>-naive</code> (not) work too.</p></footer>\n";
  out +=
      fmt::format("<script>{}</script>\n<script>{}</script>\n</body>\n</html>\n", charts, script);
  return out;
}

}  // namespace ridgeline
