// The history of results, which is a SQLite file: listed, compared with, and added to.
#include "measure/history.h"
#include "fuzz/fuzz.h"
#include "fuzz/in_process.h"
#include "fuzz/seed_records.h"

namespace ridgeline {
namespace {

// The bytes of a history with two runs, the same in every process.
std::string good_history(const TempDir& folder) {
  const std::filesystem::path file = folder / "good.sqlite";
  const std::vector<Record> records = seed_records();
  {
    History history(file, Database::Open::create);
    history.save("main", std::span(records).first(3));
    history.save("other", std::span(records).last(2));
  }
  Database(file, Database::Open::existing).run("UPDATE runs SET saved_at = '2026-01-31T00:00:00Z'");
  return read_text(file);
}

TEST(SlowFuzz, History) {
  const TempDir folder;
  write_text(folder / "new.jsonl", lines_of(seed_records()));
  const std::string results_dir = folder.path().string();
  const std::vector<Record> added = {seed_records().front()};
  fuzz({.name = "History",
        .seeds = {good_history(folder)},
        .words = {"CREATE TABLE runs (id INTEGER)", "records", "main", "\"schema\":1,"},
        .run =
            [&](const std::string& input) {
              for (const char* left : {"history.sqlite-journal", "history.sqlite-wal"})
                std::filesystem::remove(folder / left);
              write_text(folder / "history.sqlite", input);
              const auto try_it = [&](AddCommand add, std::vector<std::string> words) {
                words.insert(words.end(), {"--results-dir", results_dir});
                try {
                  run_command(add, words);
                } catch (const Error& error) {  // the next command meets the same file
                  if (error.kind() == ErrorKind::internal) throw;
                }
              };
              try_it(add_history_command, {"history", "--baselines"});
              try_it(add_history_command, {"history", "--last", "2"});
              try_it(add_compare_command,
                     {"compare", "--baseline", "main", (folder / "new.jsonl").string()});
              History history(folder / "history.sqlite", Database::Open::existing);
              history.save("again", added);
            },
        .inputs = 300});
}

}  // namespace
}  // namespace ridgeline
