#include "studies/study.h"

#include <fmt/format.h>

#include "base/print.h"
#include "report/terminal/ladder.h"

namespace ridgeline {

std::string predicted_cell(const Record& described) {
  const std::optional<Bytes>& peak = described.memory.predicted_peak;
  return peak ? to_string(*peak) : "-";
}

std::string fits_cell(const Record& described, const Device& device) {
  const std::optional<Bytes>& peak = described.memory.predicted_peak;
  if (described.status != Status::ok) return std::string(status_csv_word(described.status));
  if (!peak) return "-";
  return *peak <= device.ledger().budget() ? "yes" : "no";
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) print("  - {}\n", note);
}

void print_summary(std::string_view title, const StudyRun& run, const Table& table) {
  print("{} on {}\n\n{}\n", title, run.device.description(), to_terminal(table, run.csv()));
}

std::string ladder_text(const StudyRun& run, std::span<const Record> records) {
  const Table ladder = ladder_table(records, run.name);
  if (ladder.rows.empty()) return {};
  const std::filesystem::path csv = run.folder / "ladder.csv";
  write_table(csv, ladder);
  return to_terminal(ladder, csv);
}

void print_paths(const StudyRun& run, bool with_array) {
  const std::string files = (run.folder / run.name).string();
  print("\nRecords: {0}.jsonl\n{1}CSV:     {0}.csv\n", files,
        with_array ? fmt::format("JSON:    {}.json\n", files) : "");
}

}  // namespace ridgeline
