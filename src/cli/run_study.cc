#include "cli/run_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/print.h"
#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/open_device.h"
#include "cli/parse_flags.h"
#include "cli/sweep.h"
#include "cli/sweep_group.h"
#include "report/terminal/colour.h"
#include "studies/peers/implementations.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

// An invalid result of the user's own implementation makes the run fail.
int exit_code(const SweepResult& result, const std::string& own) {
  const int code = exit_code(result);
  const auto failed = [&](const Record& record) {
    return record.implementation == own && record.status == Status::invalid;
  };
  if (!own.empty() && std::ranges::any_of(result.records, failed))
    return exit_code(ErrorKind::wrong_result);
  return code;
}

// Reports in full, and each reason once, why rows of peers and of the user's own implementation
// failed, as tables only show one word.
void say_failures(const std::vector<Record>& records, const std::string& own) {
  const bool colour = shows_colour(stderr);
  std::set<std::string> said;
  for (const Record& record : records) {
    const bool of_others = kAttentionPeers.find(record.implementation) ||
                           kModelPeers.find(record.implementation) || record.implementation == own;
    const std::string reason = fmt::format("{}: {}", record.implementation, record.error);
    if (record.status == Status::ok || !of_others || !said.insert(reason).second) continue;
    const std::string_view status = status_csv_word(record.status);
    say("{}: {}: {}", record.implementation,
        colour ? painted(tone_of(status), status) : std::string(status), record.error);
  }
}

// Two sizes may be one where flags override all that tells them apart, and two spellings may be one
// number. Its row would be measured twice, and count twice in fits, notes and tables.
void refuse_equal_rows(const std::vector<StudyRow>& rows) {
  std::set<std::string> keys;
  for (const StudyRow& row : rows)
    if (!keys.insert(workload_key(row.described)).second)
      throw Error(ErrorKind::usage, fmt::format("two rows are the same: {}", row.label),
                  "name each value once; sizes that flags override alike are one size");
}

}  // namespace

int run_study(const StudyInfo& info, Study& study, const fs::path& folder) {
  const SharedFlags& shared = study.shared;
  if (shared.list) {
    print("{}", study.list());
    return 0;
  }
  study.check();
  if (!shared.dry_run) study.before_device();
  const std::unique_ptr<Device> device = open_device(shared.device, show_stage);
  StudyRun run{.info = info,
               .device = *device,
               .protocol = make_protocol(shared.protocol),
               .blank = blank_record(*device),
               .settings = settings_of(shared.device, *device),
               .results_dir = shared.results_dir,
               .folder = folder.empty() ? fs::path(shared.results_dir) / info.name : folder,
               .device_words = to_command(shared.device, *device),
               .interrupted = sweep_interrupted,
               .stage = show_stage,
               .hide_progress = hide_progress};
  if (!shared.dry_run) watch_for_interrupts();
  if (const std::optional<int> code = study.run_instead(run)) return *code;
  const std::vector<StudyRow> rows = study.rows(run);
  refuse_equal_rows(rows);
  if (shared.dry_run) {
    print("{}", to_terminal(study.planned(run, rows)));
    study.show_last(run, rows, {});
    return 0;
  }
  const SweepResult result = run_sweep(rows, run, study);
  const std::string own = study.own_implementation();
  say_failures(result.records, own);
  if (result.records.empty()) return exit_code(result);
  study.show(run, rows, result.records);
  print_paths(run);
  study.show_last(run, rows, result.records);
  return exit_code(result, own);
}

Run add_command_of(CLI::App& app, const StudyInfo& info) {
  const auto declared = std::make_shared<DeclaredStudy>(info);
  CLI::App* command = app.add_subcommand(std::string(info.name), std::string(info.summary));
  add_flags(*command, declared->flags);
  command->footer(std::string(info.examples));
  return [declared] { return run_study(declared->info, *declared->study); };
}

}  // namespace ridgeline
