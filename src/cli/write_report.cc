#include "cli/write_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "base/file_io.h"
#include "base/print.h"
#include "base/printable.h"
#include "cli/base_results.h"
#include "cli/build_facts.h"
#include "cli/sweep.h"
#include "measure/read_results.h"
#include "report/page/document.h"
#include "report/page/html_page.h"
#include "report/page/markdown.h"
#include "report/page/short_paths.h"
#include "report/page/svg_chart.h"
#include "report/page/svg_png.h"
#include "report/terminal/problems.h"
#include "studies/studies.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

// Replaces a folder by all results files below it, sorted by path.
std::vector<fs::path> results_files(const std::vector<fs::path>& given) {
  std::vector<fs::path> files;
  for (const fs::path& path : given) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    std::set<fs::path> found;
    for (const auto& entry :
         fs::recursive_directory_iterator(path, fs::directory_options::skip_permission_denied))
      if (entry.is_regular_file() && entry.path().extension() == ".jsonl")
        found.insert(entry.path());
    if (found.empty())
      throw Error(ErrorKind::usage,
                  fmt::format("'{}' holds no results file (.jsonl)", path.string()),
                  "run a study first, such as ridgeline study");
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

// Reads the records of one argument of the command, with runs merged.
std::vector<Record> read_argument(const fs::path& given, ReportInput& input) {
  std::vector<Record> records;
  for (const fs::path& file : results_files({given})) {
    ReadResult read = read_results(file);
    input.sources.push_back(file.string());
    for (const LineProblem& problem : read.problems)
      input.problems.push_back({file.string(), problem});
    for (Record& record : runs_merged(
             say_problems(std::move(read), printable(file.string()), "the report lists it")))
      records.push_back(std::move(record));
  }
  return records;
}

bool share_rows(const std::vector<Record>& base, const std::vector<Record>& next) {
  std::set<std::string> keys;
  for (const Record& record : base) keys.insert(workload_key(record));
  return std::ranges::any_of(
      next, [&](const Record& record) { return keys.contains(workload_key(record)); });
}

// Compares each argument that shares rows with the first one against it. Arguments that cannot be
// compared are only shown side by side.
void compare_arguments(const ReportRequest& request, const std::vector<std::vector<Record>>& sides,
                       ReportInput& input) {
  std::vector<std::string> names;
  for (const fs::path& path : request.results) names.push_back(path.string());
  names = short_paths(names);
  for (size_t i = 1; i < sides.size(); ++i) {
    if (!share_rows(sides.front(), sides[i])) continue;
    try {
      input.sides.push_back(
          {.name = fmt::format("{} against {}", names[i], names.front()),
           .comparison = compare_records(
               sides.front(), sides[i],
               {.axes = compare_axes(), .noise = input.noise, .force = request.force}),
           .base = sides.front(),
           .next = sides[i]});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage) throw;
      say("{} is not compared with {}: {}", request.results[i].string(),
          request.results.front().string(), error.what());
    }
  }
}

ReportInput read_input(const ReportRequest& request) {
  ReportInput input{.made_by = fmt::format("ridgeline {}", build_facts().version),
                    .made_at = utc_now(),
                    .sections = report_sections(),
                    .unchecked = unchecked_studies(),
                    .titles = study_titles()};
  std::vector<std::vector<Record>> sides;
  for (const fs::path& given : request.results) sides.push_back(read_argument(given, input));
  if (std::ranges::all_of(sides, &std::vector<Record>::empty))
    throw Error(ErrorKind::usage, "no record could be read, so there is nothing to report",
                "give results files (.jsonl) that a study wrote");
  if (!request.base.empty() && !request.baseline.empty())
    throw Error(ErrorKind::usage, "--base and --baseline are two bases", "give one of them");
  const std::shared_ptr<History> history = history_if_any(request.results_dir);
  // Keeps the history open while the report looks up noise floors.
  input.noise = [history, of = noise_of(history.get())](const auto&... row) { return of(row...); };
  const bool has_base = !request.base.empty() || !request.baseline.empty();
  if (!has_base) compare_arguments(request, sides, input);
  for (std::vector<Record>& side : sides)
    for (Record& record : side) input.records.push_back(std::move(record));
  if (!has_base) return input;
  std::vector<Record> base =
      runs_merged(request.baseline.empty()
                      ? read_side(request.base)
                      : read_baseline(request.baseline, history.get(), request.results_dir));
  input.sides.push_back(
      {.name = fmt::format("against {}", request.baseline.empty()
                                             ? short_paths({request.base.string()}).front()
                                             : request.baseline),
       .comparison =
           compare_records(base, input.records,
                           {.axes = compare_axes(), .noise = input.noise, .force = request.force}),
       .base = std::move(base)});
  return input;
}

// Returns "fp32-d-64" for "fp32, d 64".
std::string file_name_part(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  while (out.ends_with('-')) out.pop_back();
  return out.substr(0, 60);
}

// Writes every chart to its own file: report-latency-forward-d-64.svg and so on for report.svg.
std::vector<fs::path> write_figures(const ReportDocument& document, const fs::path& output,
                                    const std::string& figure) {
  std::vector<fs::path> written;
  std::set<std::string> ids;
  for (const ReportSection& section : document.sections)
    for (const ReportView& view : section.views)
      for (const Chart& chart : view.charts) {
        ids.insert(chart.id);
        if (!figure.empty() && chart.id != figure) continue;
        const bool several = section.views.size() > 1;
        fs::path path = output;
        path.replace_filename(
            fmt::format("{}-{}{}{}{}", output.stem().string(), chart.id, several ? "-" : "",
                        several ? file_name_part(view.name) : "", output.extension().string()));
        // Numbers the names that differ only in characters that were replaced.
        const std::string stem = path.stem().string();
        for (int i = 2; std::find(written.begin(), written.end(), path) != written.end(); ++i)
          path.replace_filename(fmt::format("{}-{}{}", stem, i, path.extension().string()));
        const std::string svg = to_svg(chart, view.name);
        if (output.extension() == ".png")
          write_png(path, svg);
        else
          write_file_atomically(path, svg);
        written.push_back(path);
      }
  if (!written.empty()) return written;
  std::string known;
  for (const std::string& id : ids) known += (known.empty() ? "" : ", ") + id;
  throw Error(ErrorKind::usage,
              figure.empty() ? "these records make no chart"
                             : fmt::format("there is no figure '{}'", printable(figure)),
              known.empty() ? "" : "these records give: " + known);
}

using Writer = std::vector<fs::path> (*)(const ReportDocument&, const fs::path&,
                                         const std::string&);
struct Shape {
  const char* ending;
  Writer write;
};
constexpr Shape kShapes[] = {
    {".html",
     [](const ReportDocument& document, const fs::path& path, const std::string&) {
       write_file_atomically(path, to_html(document));
       return std::vector{path};
     }},
    {".md",
     [](const ReportDocument& document, const fs::path& path, const std::string&) {
       write_file_atomically(path, to_markdown(document));
       return std::vector{path};
     }},
    {".svg", write_figures},
    {".png", write_figures},
};

const Shape& shape_of(const fs::path& output) {
  for (const Shape& shape : kShapes)
    if (output.extension() == shape.ending) return shape;
  throw Error(ErrorKind::usage,
              fmt::format("a report cannot be written to '{}'", printable(output.string())),
              "its name must end in .html, .md, .svg or .png");
}

}  // namespace

FileDescriptor check_report_output(const fs::path& output) {
  shape_of(output);
  return check_writable(output);
}

std::vector<fs::path> write_document(const ReportDocument& document, const fs::path& output,
                                     const std::string& figure) {
  return shape_of(output).write(document, output, figure);
}

WrittenReports write_reports(const ReportRequest& request) {
  for (const fs::path& output : request.outputs)  // checked before reading the results
    if (shape_of(output).write != write_figures && !request.figure.empty())
      throw Error(ErrorKind::usage,
                  fmt::format("--figure is about .svg and .png, and '{}' is a whole page",
                              printable(output.string())),
                  "leave one of them out");
  std::vector<FileDescriptor> pipes;
  for (const fs::path& output : request.outputs) pipes.push_back(check_writable(output));
  const ReportInput input = read_input(request);
  for (const fs::path& output : request.outputs)  // an output may be a link to a results file
    for (const std::string& source : input.sources)
      refuse_same_files({{"the results", source}, {"--output", output}});
  WrittenReports written{.document = make_report(input)};
  for (const fs::path& output : request.outputs)
    for (const fs::path& path : write_document(written.document, output, request.figure))
      written.files.push_back(path);
  return written;
}

}  // namespace ridgeline
