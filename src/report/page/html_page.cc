#include "report/page/html_page.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/sha256.h"
#include "report/page/answers.h"
#include "report/page/html_assets.h"
#include "report/page/html_escape.h"
#include "report/page/html_figure.h"
#include "report/page/html_table.h"
#include "report/page/palette.h"

namespace ridgeline {
namespace {

std::string_view asset(std::string_view name) {
  for (const EmbeddedText& each : report_assets())
    if (each.name == name) return each.text;
  throw Error(ErrorKind::internal, fmt::format("the build embedded no '{}'", name));
}

// Joins the scripts in order of their dependencies.
std::string script() {
  std::string text = "(() => {\n\"use strict\";\n";
  for (const char* name : {"charts.js", "timelines.js", "tables.js", "page.js"})
    text += asset(name);
  return text + "})();\n";
}

// The hash of the script for the Content-Security-Policy, which lets no other script run.
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

std::string notes_html(const std::vector<std::string>& sentences) {
  if (sentences.empty()) return {};
  std::string out = "<ul class=\"notes\">\n";
  for (const std::string& sentence : sentences) {
    // The subject of a sentence is bold: "Attention: ...".
    constexpr size_t kLongestLead = 24;
    const size_t colon = sentence.find(": ");
    const size_t lead = colon <= kLongestLead ? colon + 1 : 0;
    out += "<li>";
    if (lead > 0) out += "<strong>" + html_escape(sentence.substr(0, lead)) + "</strong>";
    out += html_escape(sentence.substr(lead)) + "</li>\n";
  }
  return out + "</ul>\n";
}

std::string level_html(const Certainty& certainty) {
  const std::string_view name = level_name(certainty.level);
  return fmt::format("<span class=\"level {}\">{}</span>", name.substr(0, name.find(' ')), name);
}

std::string terms_html(const std::vector<Term>& terms) {
  if (terms.empty()) return {};
  std::string out = "<p class=\"terms\">";
  for (size_t i = 0; i < terms.size(); ++i)
    out += fmt::format("{}<dfn>{}</dfn>: {}", i == 0 ? "" : "; ", html_escape(terms[i].word),
                       html_escape(terms[i].meaning));
  return out + ".</p>\n";
}

// The summary of the folded part: "Who is fastest at which size, 2 more tables".
std::string details_words(const ReportSection& section) {
  constexpr size_t kLongestTitle = 36;
  const size_t tables = section.tables.size();
  if (tables == 0) return "Notes";
  const std::string& title = section.tables.front().title;
  // Cuts the explanation off the title.
  std::string out = title.substr(0, title.find_first_of(";,("));
  if (out.size() > kLongestTitle) out = out.substr(0, kLongestTitle) + "...";
  while (out.ends_with(' ')) out.pop_back();
  if (tables > 1) out += fmt::format(", {} more table{}", tables - 1, tables == 2 ? "" : "s");
  return out;
}

std::string details_html(const ReportSection& section) {
  if (section.sentences.empty() && section.tables.empty()) return {};
  std::string out = fmt::format("<details class=\"fold\"><summary>{}</summary>\n{}",
                                html_escape(details_words(section)), notes_html(section.sentences));
  for (const ReportTable& table : section.tables) out += table_html(table);
  return out + "</details>\n";
}

std::string section_html(const ReportSection& section) {
  std::string out = fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n",
      html_escape(section.id),
      html_escape(section.question.empty() ? section.title : section.question));
  if (!section.answer.empty())
    out += fmt::format("<p class=\"answer\">{}</p>\n", html_escape(section.answer));
  if (!section.answer.empty() && !section.certainty.why.empty())
    out += fmt::format("<p class=\"certainty\">{} {}</p>\n", level_html(section.certainty),
                       html_escape(section.certainty.why));
  return out + terms_html(section.terms) + views_html(section) + details_html(section) +
         "</section>\n";
}

// Questions with their answers, each linked to its section.
std::string answers_html(const ReportDocument& document) {
  std::string out =
      "<section id=\"answers\" aria-labelledby=\"answers-title\">\n<h2 id=\"answers-title\">"
      "Answers</h2>\n";
  if (!document.figures.empty()) {
    out += "<div class=\"figures\">\n";
    for (const KeyFigure& each : document.figures)
      out += fmt::format("<p><strong>{}</strong> <span>{}</span></p>\n", html_escape(each.value),
                         html_escape(each.what));
    out += "</div>\n";
  }
  // The first answers fill one screen; the others are folded.
  constexpr size_t kLeading = 4;
  std::string others;
  size_t leading = 0, folded = 0;
  out += "<ul class=\"answers\">\n";
  for (const ReportSection& section : document.sections) {
    if (!is_finding(section)) continue;
    // The sections on kernels and on lengths that fit detail the answer on attention.
    const bool is_closer_look = (section.id == "kernel" || section.id == "frontier") && leading > 0;
    const bool is_leading = section.id == "trust" || (leading < kLeading && !is_closer_look);
    ++(is_leading ? leading : folded);
    (is_leading ? out : others) +=
        fmt::format("<li><a href=\"#{}\">{}</a> <span>{}</span> {}</li>\n", html_escape(section.id),
                    html_escape(section.question), html_escape(first_sentence(section.answer)),
                    level_html(section.certainty));
  }
  out += "</ul>\n";
  if (folded > 0)
    out += fmt::format(
        "<details class=\"fold\"><summary>{} more answer{}</summary>\n<ul "
        "class=\"answers\">\n{}</ul></details>\n",
        folded, folded == 1 ? "" : "s", others);
  if (!document.summary.empty())
    out += fmt::format(
        "<details class=\"fold\"><summary>All findings in {} sentences</summary>\n{}</details>\n",
        document.summary.size(), notes_html(document.summary));
  return out + "</section>\n";
}

std::string navigation(const ReportDocument& document) {
  std::string out =
      "<nav aria-label=\"Sections\"><button type=\"button\" class=\"menu\" aria-expanded=\"false\" "
      "aria-controls=\"sections\">Sections</button>\n<ul id=\"sections\"><li><a "
      "href=\"#answers\">Answers</a></li>\n";
  for (const ReportSection& section : document.sections)
    out += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", html_escape(section.id),
                       html_escape(section.title));
  return out +
         "</ul>\n<p id=\"filtered\" role=\"status\" hidden><span>Only <b></b> stands out.</span> "
         "<button type=\"button\">Show all</button></p></nav>\n";
}

}  // namespace

std::string to_html(const ReportDocument& document) {
  const std::string code = script();
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src {}; img-src data:; base-uri 'none'; "
      "form-action 'none'\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>\n{}{}</style>\n</head>\n<body>\n"
      "<a class=\"skip\" href=\"#answers\">Skip to the answers</a>\n<header>\n<h1>{}</h1>\n"
      "<p>{}</p>\n</header>\n{}<main>\n",
      script_source(code), html_escape(document.title), asset("report.css"), palette_css(),
      html_escape(document.title), html_escape(document.subtitle), navigation(document));
  out += answers_html(document);
  for (const ReportSection& section : document.sections) out += section_html(section);
  out +=
      "</main>\n<footer><p>" + html_escape(document.footer) +
      "</p></footer>\n"
      "<div id=\"tip\" hidden></div><p id=\"spoken\" class=\"unseen\" aria-live=\"polite\"></p>\n";
  return out + "<script>" + code + "</script>\n</body>\n</html>\n";
}

}  // namespace ridgeline
