#include "report/page/html_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/json.h"
#include "report/page/html_escape.h"
#include "report/page/html_table.h"
#include "report/page/palette.h"
#include "report/page/svg_chart.h"
#include "report/page/svg_picture.h"

namespace ridgeline {
namespace {

// The button of the legend that shows and hides a series.
std::string series_button(const ChartSeries& series) {
  using enum ChartSeries::Mark;
  const char* look = series.mark == rings                   ? " ring"
                     : series.mark == crosses               ? " cross"
                     : series.dashed || series.mark == line ? " dashed"
                                                            : "";
  return fmt::format(
      "<button type=\"button\" class=\"key\" aria-pressed=\"{}\" data-name=\"{}\"><i "
      "class=\"{}{}\" "
      "aria-hidden=\"true\"></i>{}</button>",
      series.hidden ? "false" : "true", html_escape(series.name), colour_class(series), look,
      html_escape(series.name));
}

// Buttons for properties that several series share: "bf16", "attention".
std::string shared_switches(const Chart& chart, const char* kind, const char* label,
                            std::string ChartSeries::*what) {
  std::vector<std::string> all;
  for (const ChartSeries& series : chart.series)
    if (!(series.*what).empty() && std::ranges::find(all, series.*what) == all.end())
      all.push_back(series.*what);
  if (all.size() < 2) return {};
  std::string out =
      fmt::format("<div class=\"keys groups\" role=\"group\" aria-label=\"{}\">", label);
  for (const std::string& name : all)
    out += fmt::format(
        "<button type=\"button\" class=\"key\" aria-pressed=\"true\" data-{}=\"{}\">{}</button>",
        kind, html_escape(name), html_escape(name));
  return out + "</div>\n";
}

std::string legend(const Chart& chart) {
  std::set<std::string> names;
  std::string shown, lines, hidden;  // measured series come before the roofs above them
  size_t more = 0;
  for (const ChartSeries& series : chart.series) {
    if (!names.insert(series.name).second) continue;
    (series.hidden                            ? hidden
     : series.mark == ChartSeries::Mark::line ? lines
                                              : shown) += series_button(series);
    more += series.hidden ? 1 : 0;
  }
  std::string out = shared_switches(chart, "group", "Arithmetic shown", &ChartSeries::group) +
                    shared_switches(chart, "work", "Work shown", &ChartSeries::work);
  if (names.size() > 1)
    out +=
        fmt::format("<div class=\"keys\" role=\"group\" aria-label=\"Series shown\">{}{}</div>\n",
                    shown, lines);
  if (!chart.key.empty()) out += fmt::format("<p class=\"marks\">{}</p>\n", html_escape(chart.key));
  if (more > 0)
    out += fmt::format(
        "<details class=\"more\"><summary>Add other machines' roofs ({})</summary><div "
        "class=\"keys\" role=\"group\" aria-label=\"Other roofs\">{}</div></details>\n",
        more, hidden);
  return out;
}

// Stores texts that repeat, such as the names of kernels, once.
class TextTable {
 public:
  size_t of(const std::string& text) {
    const auto [entry, is_new] = places_.try_emplace(text, places_.size());
    if (is_new) texts_.push_back(text);
    return entry->second;
  }
  Json json() const { return texts_; }

 private:
  std::map<std::string, size_t> places_;
  Json texts_ = Json::array();
};

Json axis_json(const Axis& axis) {
  Json ticks = Json::array();
  for (const Tick& tick : axis.ticks) ticks.push_back({tick.value, tick.text});
  return {{"label", axis_title(axis)}, {"min", axis.min}, {"max", axis.max}, {"ticks", ticks}};
}

// The data that the canvas draws: rectangles on tracks, or steps.
Json timeline_json(const Chart& chart) {
  TextTable texts;
  Json all = Json::array();
  for (const ChartSeries& series : chart.series) {
    Json points = Json::array();
    for (const ChartPoint& point : series.points)
      points.push_back(chart.has_categories()
                           ? Json{point.x, point.from, point.y, texts.of(point.text)}
                           : Json{point.x, point.y, texts.of(point.text), texts.of(point.label)});
    all.push_back({{"name", series.name},
                   {"colour", colour_class(series)},
                   {"area", series.mark == ChartSeries::Mark::area},
                   {"band", series.palette == ChartSeries::Palette::tensors},
                   {"points", std::move(points)}});
  }
  return {{"tracks", chart.categories},
          {"x", axis_json(chart.has_categories() ? chart.y : chart.x)},
          {"y", axis_json(chart.y)},
          {"series", std::move(all)},
          {"texts", texts.json()}};
}

std::string canvas(const Chart& chart) {
  return fmt::format(
      "<div class=\"timeline\" data-kind=\"{}\"><div class=\"tools\">"
      "<label>Find <input type=\"search\" placeholder=\"a name\"></label>"
      "<span class=\"found\" role=\"status\"></span>"
      "<button type=\"button\" data-do=\"in\" aria-label=\"Zoom in\">+</button>"
      "<button type=\"button\" data-do=\"out\" aria-label=\"Zoom out\">-</button>"
      "<button type=\"button\" data-do=\"all\">Whole</button></div>\n"
      "<canvas tabindex=\"0\" role=\"img\" aria-label=\"{}\"></canvas>"
      "<script type=\"application/json\">{}</script></div>\n",
      chart.has_categories() ? "tracks" : "steps",
      html_escape(chart.title + ". " + chart.description +
                  " Plus and minus zoom, arrows move; the numbers follow as a table."),
      script_safe_json(timeline_json(chart).dump()));
}

// A static picture of a timeline, without tooltips.
std::string still_picture(Chart chart) {
  for (ChartSeries& series : chart.series)
    for (ChartPoint& point : series.points) point.text.clear();
  return to_page_svg(chart, SvgFrame::kWide);
}

// Only the first view has a static picture of a timeline, for print and readers without scripts:
// the other views are shown by the script alone.
std::string figure(const Chart& chart, bool is_first_view) {
  std::string out = fmt::format("<figure class=\"chart\" data-chart=\"{}\"><h3>{}</h3>\n{}",
                                html_escape(chart.id), html_escape(chart.title), legend(chart));
  if (chart.zooms) out += canvas(chart);
  if (!chart.zooms)
    out += fmt::format(
        "<div class=\"plot\" role=\"group\" tabindex=\"0\" aria-label=\"{}\">\n{}{}</div>\n",
        html_escape(chart.title + ". " + chart.description +
                    " Arrow keys move from point to point; the numbers follow as a table."),
        to_page_svg(chart, SvgFrame::kWide), to_page_svg(chart, SvgFrame::kNarrow));
  else if (is_first_view)
    out += fmt::format("<div class=\"plot still\">\n{}</div>\n", still_picture(chart));
  return out + fmt::format("<details><summary>Numbers</summary>{}</details></figure>\n",
                           plain_table(chart_table(chart)));
}

std::string charts_html(const ReportView& view, bool is_first_view) {
  const size_t pictures = std::min(view.pictures, view.charts.size());
  std::string out = fmt::format("<div class=\"pictures n{}\">\n", std::min<size_t>(pictures, 3));
  for (size_t i = 0; i < pictures; ++i) out += figure(view.charts[i], is_first_view);
  out += "</div>\n";
  if (pictures == view.charts.size()) return out;
  out += fmt::format(
      "<details class=\"fold\"><summary>More charts ({})</summary><div class=\"pictures n2\">\n",
      view.charts.size() - pictures);
  for (size_t i = pictures; i < view.charts.size(); ++i)
    out += figure(view.charts[i], is_first_view);
  return out + "</div></details>\n";
}

}  // namespace

std::string views_html(const ReportSection& section) {
  if (section.views.empty()) return {};
  std::string out;
  if (section.views.size() > 1) {
    out += "<p class=\"pick\"><label>Setting <select data-views>";
    for (size_t i = 0; i < section.views.size(); ++i)
      out += fmt::format("<option value=\"{}\">{}</option>", i, html_escape(section.views[i].name));
    out += "</select></label></p>\n";
  } else if (const std::string& name = section.views.front().name;
             section.answer.find(name) == std::string::npos) {
    out += fmt::format("<p class=\"pick\">{}</p>\n", html_escape(section.views.front().name));
  }
  for (size_t i = 0; i < section.views.size(); ++i)
    out += fmt::format("<div class=\"view\" data-view=\"{}\"{}>\n{}</div>\n", i,
                       i == 0 ? "" : " hidden", charts_html(section.views[i], i == 0));
  return out;
}

}  // namespace ridgeline
