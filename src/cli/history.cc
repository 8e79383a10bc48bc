// ridgeline history: lists saved baselines, and the results of a workload over time and commits.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/print.h"
#include "base/printable.h"
#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/write_report.h"
#include "report/page/history.h"
#include "report/record_cells.h"
#include "report/terminal/history.h"
#include "report/terminal/problems.h"
#include "studies/shared_flags.h"

namespace ridgeline {
namespace {

struct HistoryFlags {
  std::string study, implementation, device, baseline;
  std::vector<std::string> where;
  int last = 0;
  bool baselines = false;
  std::string import_file, as;
  std::string output;
  std::string results_dir = "results";
};

// Whether the workload or the settings of a record match a condition such as "seq_len=1024".
bool holds(const std::string& condition, const Record& record) {
  const size_t equals = condition.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(ErrorKind::usage,
                fmt::format("'{}' is not a condition: expected one such as seq_len=1024",
                            printable(condition, 60)));
  const std::string key = condition.substr(0, equals), value = condition.substr(equals + 1);
  for (const Json* part : {&record.workload, &record.settings})
    if (const Json* found = part->find_key(key))
      return value == (found->is_string() ? found->get<std::string>() : found->dump());
  return false;
}

bool is_asked_for(const SavedRecord& saved, const HistoryFlags& flags) {
  const auto matches = [](const std::string& asked, const std::string& actual) {
    return asked.empty() || asked == actual;
  };
  return matches(flags.study, saved.record.study) && matches(flags.device, saved.record.device) &&
         matches(flags.implementation, saved.record.implementation) &&
         matches(flags.baseline, saved.run.name) &&
         std::all_of(flags.where.begin(), flags.where.end(),
                     [&](const std::string& condition) { return holds(condition, saved.record); });
}

bool is_chart(const std::string& path) {
  return path.ends_with(".html") || path.ends_with(".svg") || path.ends_with(".png");
}

std::string output_ending(const std::string& path) {
  return path.ends_with(".csv") || path.ends_with(".md") || is_chart(path)
             ? std::string()
             : fmt::format(
                   "'{}' cannot hold a history: expected .csv or .md for lines, .html, .svg "
                   "or .png for charts",
                   path);
}

void write_charts(const HistoryFlags& flags, std::span<const SavedRecord> records,
                  const NoiseLookup& noise) {
  const ReportDocument document =
      history_report({.records = records,
                      .noise = noise,
                      .made_by = fmt::format("ridgeline {}", build_facts().version),
                      .made_at = utc_now(),
                      .source = History::file_in(flags.results_dir).string()});
  for (const std::filesystem::path& path : write_document(document, flags.output))
    print("History: {}\n", path.string());
}

int import(const HistoryFlags& flags, const std::filesystem::path& file) {
  if (flags.as.empty()) throw Error(ErrorKind::usage, "--import needs a name", "add --as NAME");
  const std::vector<Record> records =
      say_problems(read_results(flags.import_file), flags.import_file);
  History history(file, Database::Open::create);
  const SavedRun run = history.save(flags.as, records);
  print("Saved {} as '{}' in {}\n", counted(static_cast<size_t>(run.rows), "record"), run.name,
        file.string());
  return 0;
}

int run_command(const HistoryFlags& flags) {
  const std::filesystem::path file = History::file_in(flags.results_dir);
  if (!flags.import_file.empty()) return import(flags, file);
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    throw Error(ErrorKind::usage, fmt::format("there is no history in '{}'", file.string()),
                "a study with --save-baseline NAME begins one; --import FILE --as NAME takes "
                "results that are there");
  if (flags.baselines && is_chart(flags.output))
    throw Error(ErrorKind::usage, "the list of baselines has no chart",
                "give a .csv or .md, or leave --baselines out");
  const FileDescriptor page =
      is_chart(flags.output) ? check_report_output(flags.output) : FileDescriptor();
  const auto outputs =
      check_output({.table = is_chart(flags.output) ? std::string() : flags.output, .json = {}});
  const History history(file, Database::Open::existing);
  if (flags.baselines) {
    const Table table = baselines_table(history.runs());
    if (!flags.output.empty()) write_table(flags.output, table);
    print("{}", to_terminal(table));
    return 0;
  }
  std::vector<SavedRecord> records;
  for (const SavedRun& run : history.runs())
    for (Record& record :
         say_problems(history.read(run), fmt::format("'{}' of {}", run.name, run.saved_at)))
      records.push_back({run, std::move(record)});
  std::erase_if(records, [&](const SavedRecord& saved) { return !is_asked_for(saved, flags); });
  if (records.empty())
    throw Error(ErrorKind::usage, "no saved row is like that",
                "ridgeline history --baselines lists what was saved");
  const NoiseLookup noise = noise_of(&history);
  if (is_chart(flags.output))
    write_charts(flags, records, noise);
  else if (!flags.output.empty())
    write_table(flags.output, history_csv(records, noise));
  for (Table& table : history_tables(records, noise)) {
    const size_t last = static_cast<size_t>(flags.last);
    if (last > 0 && table.rows.size() > last)
      table.rows.erase(table.rows.begin(), table.rows.end() - flags.last);
    print("{}\n", to_terminal(table));
  }
  return 0;
}

}  // namespace

Run add_history_command(CLI::App& app) {
  auto flags = std::make_shared<HistoryFlags>();
  CLI::App* command = app.add_subcommand(
      "history", "saved baselines, and what became of a workload over time and commits");
  command->add_option("--study", flags->study, "only this study");
  command->add_option("--impl", flags->implementation, "only this implementation");
  command->add_option("--device", flags->device, "only this device: cpu, cuda");
  command->add_option("--where", flags->where, "only rows with this, such as seq_len=1024")
      ->delimiter(',');
  command->add_option("--baseline", flags->baseline, "only what was saved under this name");
  command->add_option("--last", flags->last, "only so many newest lines of each row")
      ->check(CLI::Range(1, 1'000'000));
  const std::vector<CLI::Option*> of_rows =
      command->get_options([](const CLI::Option* option) { return !option->check_lname("help"); });
  CLI::Option* baselines =
      command->add_flag("--baselines", flags->baselines, "list the baselines instead");
  CLI::Option* import_file =
      command->add_option("--import", flags->import_file, "save a results file that is there");
  command->add_option("--as", flags->as, "the name to save it under")->needs(import_file);
  CLI::Option* output =
      command
          ->add_option("--output", flags->output,
                       "the lines as .csv or .md, or charts over commits as .html, .svg or .png")
          ->check(CLI::Validator(output_ending, ""));
  for (CLI::Option* instead : {baselines, import_file})
    for (CLI::Option* option : of_rows) instead->excludes(option);
  import_file->excludes(baselines)->excludes(output);
  command->add_option("--results-dir", flags->results_dir, "where the history is")
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  ridgeline attention --save-baseline main --d-model 64 --seq-len 1024\n"
      "  ridgeline history --impl flash --where seq_len=1024 --last 10\n"
      "  ridgeline history --study attention --output history.html");
  return [flags] { return run_command(*flags); };
}

}  // namespace ridgeline
