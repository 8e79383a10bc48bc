// ridgeline report: renders results files as an HTML page, as Markdown, or as figures.

#include <memory>

#include "base/print.h"
#include "cli/commands.h"
#include "cli/write_report.h"

namespace ridgeline {

Run add_report_command(CLI::App& app) {
  auto request = std::make_shared<ReportRequest>();
  CLI::App* command = app.add_subcommand("report", "results files as a page, Markdown or figures");
  command->add_option(
      "results", request->results,
      "results files (.jsonl), or folders that hold them; results, if none is given");
  command
      ->add_option("-o,--output", request->outputs,
                   "what to write, by its ending: .html, .md, .svg, .png; may be given again")
      ->allow_extra_args(false);
  command->add_option("--figure", request->figure,
                      "of .svg and .png only this figure, such as latency-forward");
  command->add_option("--base", request->base,
                      "a results file to compare with: verdicts as `ridgeline compare` gives them");
  command->add_option("--baseline", request->baseline, "a saved baseline in its place");
  command->add_option("--results-dir", request->results_dir, "where the history is")
      ->capture_default_str();
  command->add_flag("--force", request->force, "compare across machines and settings");
  command->footer(
      "Examples:\n"
      "  ridgeline report results/study -o report.html\n"
      "  ridgeline report new.jsonl --base before.jsonl -o report.html\n"
      "  ridgeline report base.jsonl new.jsonl -o report.html -o report.md\n"
      "  ridgeline report results -o figures/attention.svg --figure latency-forward");
  return [request] {
    if (request->results.empty()) request->results.emplace_back("results");
    if (request->outputs.empty()) request->outputs.emplace_back("report.html");
    for (const std::filesystem::path& path : write_reports(*request).files)
      print("Report: {}\n", path.string());
    return 0;
  };
}

}  // namespace ridgeline
