// ridgeline study: runs all studies at a size that fits this machine, and writes one report.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/at_end.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/print.h"
#include "base/sort_by.h"
#include "cli/base_results.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/open_device.h"
#include "cli/parse_flags.h"
#include "cli/run_study.h"
#include "cli/sweep.h"
#include "cli/sweep_group.h"
#include "cli/write_report.h"
#include "measure/history.h"
#include "measure/read_results.h"
#include "measure/record_json.h"
#include "report/terminal/story.h"
#include "report/terminal/table.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

struct WholeStudyFlags {
  DeviceFlags device;
  ProtocolFlags protocol{.warmups = 3, .time_budget = "1s"};
  bool gave_warmups = false;  // otherwise each study uses its own default
  std::string results_dir = "results";
  std::string output, json;  // a further report, all records as one array; empty: none
  std::string save_baseline;
  std::string only;  // a study; empty: all
  int runs = 1;
  bool resume = false;
  bool dry_run = false;
};

// The studies that are part of it, ordered by StudyInfo::turn.
std::vector<const StudyInfo*> parts_in_turn() {
  std::vector<const StudyInfo*> parts;
  for (const StudyInfo& info : studies())
    if (info.turn > 0) parts.push_back(&info);
  sort_by(parts, &StudyInfo::turn);
  return parts;
}

// A study at its usual size, or at the largest that fits.
struct Part {
  std::unique_ptr<DeclaredStudy> declared;
  std::string said = {};  // a message if the size is not the usual one
};

class WholeStudy {
 public:
  explicit WholeStudy(const WholeStudyFlags& flags)
      : flags_(flags),
        directory_(fs::path(flags.results_dir) / "study"),
        protocol_(make_protocol(flags.protocol)),
        device_(open_device(flags.device)) {
    if (!flags.save_baseline.empty()) check_baseline_name(flags.save_baseline);
    if (!flags.output.empty()) held_.push_back(check_report_output(flags.output));
    if (!flags.json.empty()) held_.push_back(check_writable(flags.json));
    for (const StudyInfo* info : parts_in_turn())
      if (flags.only.empty() || flags.only == info->name) parts_.push_back(info);
  }

  int run() {
    refuse_same_files(files());
    print("All studies on {}\nbudget for tensors {}\n", device_->description(),
          to_string(device_->ledger().budget()));
    SweepGroup group;  // one progress line for all; runs in fresh processes show their own
    if (!flags_.dry_run && flags_.runs == 1)
      for (const StudyInfo* info : parts_)
        group.expect([&] { run_study(*info, *part_of(*info).declared->study, folder_of(*info)); });
    for (const StudyInfo* info : parts_) {
      const bool wrote = run_part(*info);
      if (code_ == kInterruptedExit) return code_;
      if (wrote) results_.push_back(file_of(*info, "jsonl"));
    }
    if (flags_.dry_run || results_.empty()) return code_;
    if (!flags_.save_baseline.empty()) save_baseline();
    write_results();
    return code_;
  }

 private:
  // Keeps the first nonzero code, except that an interruption takes precedence.
  void note(int code) { code_ = code_ == 0 || code == kInterruptedExit ? code : code_; }

  fs::path folder_of(const StudyInfo& info) const {
    return info.has_folder ? directory_ / info.name : directory_;
  }
  fs::path file_of(const StudyInfo& info, std::string_view ending) const {
    return folder_of(info) / fmt::format("{}.{}", info.name, ending);
  }

  // All files that this command writes, and those of the studies that --only leaves out: no output
  // may replace them.
  std::vector<WrittenFile> files() const {
    std::vector<WrittenFile> files = {{"the report", report_file()},
                                      {"the history", History::file_in(flags_.results_dir)}};
    for (const StudyInfo* info : parts_in_turn()) {
      files.push_back({"the records", file_of(*info, "jsonl")});
      files.push_back({"the table", file_of(*info, "csv")});
      if (info->writes_array) files.push_back({"the JSON", file_of(*info, "json")});
    }
    files.push_back({"--output", flags_.output});
    files.push_back({"--json", flags_.json});
    return files;
  }
  fs::path report_file() const { return directory_ / "report.html"; }

  Part part_of(const StudyInfo& info) const {
    const std::string budget = to_string(device_->ledger().budget());
    Part part{.declared = std::make_unique<DeclaredStudy>(info)};
    for (int attempt = 0;; ++attempt) {
      auto smaller = std::make_unique<DeclaredStudy>(info);
      if (!smaller->study->set_up({*device_, flags_.protocol.time_budget, attempt})) {
        part.said =
            fmt::format("\nNot even the smallest {} fits the budget of {}.\n", info.name, budget);
        break;
      }
      part.declared = std::move(smaller);
      if (!part.declared->study->fits(*device_)) continue;
      if (attempt > 0)
        part.said = fmt::format("\nA smaller {} than usual, so that it fits the budget of {}.\n",
                                info.name, budget);
      break;
    }
    share_flags(info, part.declared->study->shared);
    return part;
  }

  void share_flags(const StudyInfo& info, SharedFlags& shared) const {
    ProtocolFlags& protocol = shared.protocol;
    protocol.gave_budget = protocol_.time_budget_s > 0;
    protocol.gave_iterations = !protocol.gave_budget;
    if (protocol.gave_budget)
      protocol.time_budget = flags_.protocol.time_budget;
    else
      protocol.iterations = protocol_.iterations;
    if (flags_.gave_warmups) protocol.warmups = protocol_.warmups;
    shared.device = flags_.device;
    shared.device.device = device_name();  // resolves "auto" once, with one message
    if (info.budget && *info.budget < device_->ledger().budget())
      shared.device.memory_budget = fmt::format("{}B", info.budget->count);
    shared.results_dir = directory_.string();
    shared.runs = flags_.runs;
    shared.resume = flags_.resume;
    shared.dry_run = flags_.dry_run;
  }

  std::string device_name() const {
    const DeviceFacts facts = device_->facts();
    return facts.ordinal > 0 ? fmt::format("{}:{}", facts.kind, facts.ordinal) : facts.kind;
  }

  // Notes the exit code and returns whether there are results of this run. Reports a study that
  // cannot run, so that the others continue; its file may hold rows of an earlier run.
  bool run_part(const StudyInfo& info) {
    const Part part = part_of(info);
    ridgeline::print("{}\n== ridgeline {} {}\n", part.said, info.name,
                     fmt::join(part.declared->flags.changed(), " "));
    std::fflush(stdout);
    fresh_arguments() = {"--only", std::string(info.name)};
    const AtEnd reset([] { fresh_arguments().clear(); });
    const fs::path records = file_of(info, "jsonl");
    std::error_code missing;
    const fs::file_time_type before = fs::last_write_time(records, missing);
    try {
      note(run_study(info, *part.declared->study, folder_of(info)));
      return fs::exists(records, missing);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::internal) throw;
      const bool wrote = fs::last_write_time(records, missing) != before && !missing;
      say("{} {}: {}", info.name, wrote ? "did not end" : "was left out", error.what());
      note(exit_code(error.kind()));
      return wrote;
    }
  }

  std::vector<Record> all_records() const {
    std::vector<Record> records;
    for (const fs::path& path : results_)
      for (Record& record : read_results(path).records) records.push_back(std::move(record));
    return records;
  }

  void save_baseline() const {
    History history(History::file_in(flags_.results_dir), Database::Open::create);
    ridgeline::save_baseline(history, flags_.save_baseline, all_records(), flags_.results_dir);
  }

  void write_results() const {
    std::vector<fs::path> reports = {report_file()};
    if (!flags_.output.empty()) reports.emplace_back(flags_.output);
    if (!flags_.json.empty()) {
      write_file_atomically(flags_.json, to_array(all_records()));
      print("\nJSON:    {}\n", flags_.json);
    }
    const WrittenReports written = write_reports({.results = results_, .outputs = reports});
    // Prints the report's path last, where it is seen.
    print("\n== What it comes to\n{}", story_text(written.document, terminal_width(STDOUT_FILENO)));
    for (const fs::path& path : written.files)
      print("\nReport:  {}   (open it in a browser)\n", path.string());
  }

  const WholeStudyFlags& flags_;
  const fs::path directory_;
  const Protocol protocol_;
  const std::unique_ptr<Device> device_;
  // Outputs that are pipes, kept open so that their readers see no end of file before the end.
  std::vector<FileDescriptor> held_;
  std::vector<const StudyInfo*> parts_;
  std::vector<fs::path> results_;
  int code_ = 0;
};

}  // namespace

Run add_study_command(CLI::App& app) {
  const auto given = std::make_shared<WholeStudyFlags>();
  CLI::App* command = app.add_subcommand(
      "study", "all studies, at a size that fits this machine, and a report of them");
  Flags flags;
  add_device_flags(flags, &given->device);
  add_protocol_flags(flags, &given->protocol);
  Flag& warmups = flags.at("--num-warmup");
  warmups.help = "untimed runs before the first sample of a row";
  warmups.rules.shows_default = false;
  warmups.rules.given = &given->gave_warmups;
  flags.add("-o,--output", &given->output, "a further report: .html, .md, .svg or .png");
  flags.add("--json", &given->json,
            "a further file with all records, raw samples included, as one JSON array");
  add_results_dir(flags, &given->results_dir, "where records and tables go");
  add_save_baseline(flags, &given->save_baseline);
  Words names;
  for (const StudyInfo* info : parts_in_turn()) names.emplace_back(info->name);
  flags.add("--only", &given->only, "one of the studies instead of all of them",
            {.choices = names, .only_choices = true});
  flags.add("--resume", &given->resume, "run only the rows that the results files do not hold");
  add_runs(flags, &given->runs);
  flags.add("--dry-run", &given->dry_run, "show what would run, run nothing");
  add_flags(*command, flags);
  command->footer(
      "Examples:\n"
      "  ridgeline study                                     about ten minutes, then report.html\n"
      "  ridgeline study --time-budget 200ms --memory-budget 4GiB");
  return [given] { return WholeStudy(*given).run(); };
}

}  // namespace ridgeline
