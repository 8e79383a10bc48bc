// Whoever is asked, the verdict on two files of records is one: compare, report, history and the
// harness stand before one engine.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "cli/csv.h"
#include "cli/run_ridgeline.h"
#include "measure/compare.h"
#include "measure/history.h"
#include "measure/record_json.h"
#include "measure/record_text.h"
#include "report/verdicts.h"
#include "ridgeline/harness.h"

namespace ridgeline {
namespace {

constexpr const char* kPhases[] = {"forward", "backward", "forward_backward"};

// By row and phase, "flash S 256 forward"; "" and "-" are no verdict.
using Found = std::map<std::string, std::string>;

std::string line_name(const std::string& implementation, const std::string& seq_len,
                      const std::string& phase) {
  return fmt::format("{} S {} {}", implementation, seq_len, phase);
}

// A way to measure: how many runs, what beside them, how long rows take and how far runs lie apart.
struct Way {
  int runs = 0;
  bool busy = false;
  bool shared = false;  // processors that now and then share a core
  double ms = 0;
  double spread = 0;  // of runs' medians, as logarithms
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[random_() % choices.size()];
  }

  std::vector<double> samples(double ms) {
    std::vector<double> out;
    for (int i = 0; i < 20; ++i) out.push_back(ms * std::exp(0.01 * normal_(random_)));
    return out;
  }

  // All rows, run after run.
  std::vector<Record> side(const Way& way, const std::vector<double>& factors) {
    std::vector<Record> out;
    for (int run = 1; run <= way.runs; ++run) {
      size_t line = 0;
      for (const char* implementation : {"naive", "flash"})
        for (const int seq_len : {64, 256}) {
          Record record = attention_record({.implementation = implementation, .seq_len = seq_len});
          record.time = fmt::format("2026-01-31T12:34:{:02}Z", ++seconds_ % 60);
          record.machine.fingerprint = "here";
          record.run = way.runs > 1 ? run : 0;
          record.series.clear();
          for (const char* phase : kPhases) {
            const double ms = way.ms * factors[line++] * std::exp(way.spread * normal_(random_));
            record.series.push_back(series_of(phase, samples(ms)));
          }
          // One run in three is quiet beside busy processes, too.
          if (way.busy && random_() % 3 > 0) record.disturbance->other_cores = 1.5;
          if (way.shared && random_() % 3 > 0) record.speed_after->together_gflops /= 1.9;
          out.push_back(std::move(record));
        }
    }
    return out;
  }

  // Of each line.
  std::vector<double> factors(std::initializer_list<double> choices) {
    std::vector<double> out;
    for (size_t i = 0; i < 4 * std::size(kPhases); ++i) out.push_back(one_of(choices));
    return out;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  int seconds_ = 0;
};

std::string lines_of(const std::vector<Record>& records) {
  std::string text;
  for (const Record& record : records) text += to_line(record);
  return text;
}

void add(Found& found, const std::string& name, std::string verdict) {
  if (verdict == "-") verdict.clear();
  EXPECT_TRUE(found.emplace(name, verdict).second) << name << " is there twice";
}

Found from_compare(const Sandbox& sandbox) {
  const Finished run = sandbox.run({"compare", "base.jsonl", "new.jsonl"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  Found found;
  for (auto& row : parse_csv(read_text(sandbox / "results/compare/comparison.csv")).rows)
    add(found, line_name(row["implementation"], row["seq_len"], row["phase"]), row["verdict"]);
  return found;
}

Found from_report(const Sandbox& sandbox) {
  const Finished run =
      sandbox.run({"report", "new.jsonl", "--base", "base.jsonl", "--output", "report.md"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  Found found;
  std::vector<std::string> columns;
  std::istringstream text(read_text(sandbox / "report.md"));
  for (std::string line; std::getline(text, line);) {
    std::vector<std::string> cells;
    std::istringstream words(line);
    for (std::string cell; std::getline(words, cell, '|');)
      cells.push_back(cell.size() < 2 ? "" : cell.substr(1, cell.size() - 2));
    const auto is_column = [&](const char* name) {
      return std::find(cells.begin(), cells.end(), name) != cells.end();
    };
    if (!line.starts_with("|"))
      columns.clear();
    else if (is_column("verdict") && is_column("phase"))
      columns = cells;
    else if (!columns.empty() && !line.starts_with("|-") && !line.starts_with("| -")) {
      std::map<std::string, std::string> row;
      for (size_t i = 0; i < cells.size(); ++i) row[columns.at(i)] = cells[i];
      add(found, line_name(row["implementation"], row["seq_len"], row["phase"]), row["verdict"]);
    }
  }
  return found;
}

Found from_history(const Sandbox& sandbox, const std::vector<Record>& base) {
  const Finished run = sandbox.run({"history", "--output", "history.csv"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  std::map<std::string, const Record*> by_text;
  for (const Record& record : base) by_text[row_text(record)] = &record;
  Found found;
  for (auto& row : parse_csv(read_text(sandbox / "history.csv")).rows) {
    if (row["baseline"] == "base") continue;  // the first of its line
    const Record& record = *by_text.at(row["row"]);
    add(found, line_name(record.implementation, record.workload["seq_len"].dump(), row["phase"]),
        row["verdict"]);
  }
  return found;
}

Found from_harness(const Sandbox& sandbox, bool has_floors) {
  Found found;
  const auto base = sandbox / "base.jsonl", next = sandbox / "new.jsonl";
  for (const BaselineRow& row :
       has_floors ? compare_with_baseline(base, next, History::file_in(sandbox / "results"))
                  : compare_with_baseline(base, next)) {
    const size_t at = row.workload.find("seq_len=") + 8;
    add(found,
        line_name(row.implementation, row.workload.substr(at, row.workload.find(' ', at) - at),
                  row.phase),
        row.verdict);
  }
  return found;
}

// Of naive against flash in one file: compare --impl, and what a report's sentences rest on.
Found flash_by_compare(const Sandbox& sandbox) {
  const Finished run = sandbox.run({"compare", "--impl", "naive,flash", "new.jsonl"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  Found found;
  for (auto& row : parse_csv(read_text(sandbox / "results/compare/comparison.csv")).rows)
    add(found, line_name("flash", row["seq_len"], row["phase"]), row["verdict"]);
  return found;
}

Found flash_by_report(const Sandbox& sandbox) {
  const std::vector<Record> rows = runs_merged(read_results(sandbox / "new.jsonl").records);
  const History history(History::file_in(sandbox / "results"), Database::Open::existing);
  Verdicts verdicts(rows, noise_of(&history));
  Found found;
  for (const Record& naive : rows)
    for (const Record& flash : rows)
      for (const char* phase : kPhases)
        if (naive.implementation == "naive" && flash.implementation == "flash" &&
            naive.workload == flash.workload)
          add(found, line_name("flash", flash.workload["seq_len"].dump(), phase),
              std::string(verdict_name(verdicts.between(naive, flash, phase).verdict)));
  return found;
}

TEST(SlowEntrances, GiveOneVerdictOnFiftyPairsOfFiles) {
  std::map<std::string, int> counts;
  for (unsigned i = 0; i < 50; ++i) {
    SCOPED_TRACE(fmt::format("pair {}", i));
    Generator generator(i);
    const double ms = generator.one_of({0.03, 0.3, 5.0});
    const double spread = generator.one_of({0.005, 0.03, 0.06});
    const auto way = [&] {
      return Way{.runs = generator.one_of({1, 1, 3, 5, 5}),
                 .busy = generator.one_of({false, false, true}),
                 .shared = generator.one_of({false, false, false, true}),
                 .ms = ms,
                 .spread = spread};
    };
    const std::vector<Record> base = generator.side(way(), generator.factors({1.0, 1.0, 1.3, 2.1}));
    std::vector<Record> next = generator.side(way(), generator.factors({1.0, 1.03, 1.3, 2.1}));
    if (i % 10 == 0) next = base;  // a file against itself
    if (i % 10 == 5) {             // a row that fails
      next.back().status = Status::oom;
      next.back().series.clear();
    }
    const Sandbox sandbox;
    write_text(sandbox / "base.jsonl", lines_of(base));
    write_text(sandbox / "new.jsonl", lines_of(next));
    History history(History::file_in(sandbox / "results"), Database::Open::create);
    const bool has_floors = i % 3 == 0;
    for (const Record& record : base)
      for (const Series& series : record.series)
        if (has_floors && record.implementation == "flash")
          history.save_noise({.fingerprint = record.machine.fingerprint,
                              .device = record.device,
                              .implementation = record.implementation,
                              .row_key = workload_key(record),
                              .phase = series.name,
                              .fraction = generator.one_of({0.02, 0.1, 0.75}),
                              .runs = kFewestFloorRuns});
    history.save("base", base);
    history.save("new", next);

    const Found compared = from_compare(sandbox);
    EXPECT_GE(compared.size(), 9u);
    Found with_times = compared;
    std::erase_if(with_times, [](const auto& line) { return line.first.ends_with(' '); });
    EXPECT_EQ(from_report(sandbox), compared);
    EXPECT_EQ(from_harness(sandbox, has_floors), compared);
    Found historical = from_history(sandbox, base);
    std::erase_if(historical, [](const auto& line) { return line.first.ends_with(' '); });
    EXPECT_EQ(historical, with_times);

    if (i % 10 != 5) {
      EXPECT_EQ(flash_by_report(sandbox), flash_by_compare(sandbox));
    }
    for (const auto& [name, verdict] : compared) ++counts[verdict];
  }
  // A test of one verdict would show little.
  for (const char* verdict : {"SAME", "FASTER", "SLOWER", "UNCLEAR"})
    EXPECT_GT(counts[verdict], 30) << verdict;
}

}  // namespace
}  // namespace ridgeline
