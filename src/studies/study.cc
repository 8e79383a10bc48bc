#include "studies/study.h"

#include <fmt/format.h>

#include "base/print.h"
#include "report/terminal/ladder.h"

namespace ridgeline {

std::filesystem::path StudyRun::file(std::string_view ending) const {
  return folder / fmt::format("{}.{}", info.name, ending);
}

Table Study::planned(const StudyRun& run, const std::vector<StudyRow>& rows) {
  const std::string word(run.info.row_word);
  Table table{
      .title = fmt::format("{} {}s would run on {}", rows.size(), word, run.device.description()),
      .columns = {word, "predicted memory", "fits"}};
  for (const StudyRow& row : rows) {
    const std::optional<Bytes>& peak = row.described.memory.predicted_peak;
    const Status status = row.described.status;
    table.rows.push_back({row.label, peak ? to_string(*peak) : "-",
                          status != Status::ok ? std::string(status_csv_word(status))
                          : !peak              ? "-"
                          : Bytes{row.peaks * peak->count} <= run.device.ledger().budget() ? "yes"
                                                                                           : "no"});
    for (const auto& [column, cell] : planned_cells(row)) {
      if (table.rows.size() == 1) table.columns.push_back(column);
      table.rows.back().push_back(cell);
    }
  }
  return table;
}

void Study::show(StudyRun& run, const std::vector<StudyRow>&, const std::vector<Record>& records) {
  print("{} on {}\n\n{}\n", run.info.title, run.device.description(),
        to_terminal(run.info.table(records), run.file("csv")));
  print_notes(run.info.notes(records));
}

RowOptions row_options(const StudyRun& run, const SharedFlags& shared) {
  return {.protocol = run.protocol,
          .seed = shared.seed,
          .verify = !shared.no_verify,
          .settings = run.settings,
          .interrupted = run.interrupted,
          .stage = run.stage};
}

std::string shared_words(const StudyRun& run, const SharedFlags& shared,
                         std::optional<int> threads) {
  return fmt::format("{}{} --seed {}{}", to_command(shared.device, run.device, threads),
                     to_command(run.protocol), shared.seed, shared.no_verify ? " --no-verify" : "");
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) print("  - {}\n", note);
}

std::string ladder_text(const StudyRun& run, std::span<const Record> records) {
  const Table ladder = ladder_table(records, run.info.name);
  if (ladder.rows.empty()) return {};
  const std::filesystem::path csv = run.folder / "ladder.csv";
  write_table(csv, ladder);
  return to_terminal(ladder, csv);
}

void print_paths(const StudyRun& run) {
  print("\nRecords: {}\n", run.file("jsonl").string());
  if (run.info.writes_array) print("JSON:    {}\n", run.file("json").string());
  print("CSV:     {}\n", run.file("csv").string());
}

}  // namespace ridgeline
