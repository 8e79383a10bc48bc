#include "measure/history.h"

#include <gtest/gtest.h>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

TEST(History, ABaselineIsTheNewestOfItsNameAndTheOlderOnesStay) {
  const TempDir dir;
  const auto file = History::file_in(dir.path());
  {
    History history(file, Database::Open::create);
    history.save("main", std::vector{attention_record({.forward_ms = 1})});
    history.save("other", std::vector{attention_record({.forward_ms = 2})});
    history.save("main", std::vector{attention_record({.forward_ms = 3})});
  }
  const History history(file, Database::Open::existing);
  const std::vector<Record> newest = history.baseline("main").records;
  ASSERT_EQ(newest.size(), 1u);
  EXPECT_EQ(newest[0], attention_record({.forward_ms = 3}));
  EXPECT_EQ(history.runs().size(), 3u);
  EXPECT_ERROR(history.baseline("absent"), ErrorKind::usage, "main, other");
}

TEST(History, HostileTextIsStoredAndReadBack) {
  const TempDir dir;
  History history(History::file_in(dir.path()), Database::Open::create);
  Record record = attention_record({});
  record.implementation = "'; DROP TABLE runs; --\x1b[2J";
  record.error = std::string(1 << 20, 'x');
  history.save("main", std::vector{record});
  EXPECT_EQ(history.baseline("main").records.at(0), record);
}

TEST(History, RowsThatCannotBeReadAreTold) {
  const TempDir dir;
  const auto file = History::file_in(dir.path());
  {
    History history(file, Database::Open::create);
    history.save("main", std::vector(3, attention_record({})));
  }
  Database(file, Database::Open::existing).run("UPDATE records SET line = 'torn' WHERE id = 2");
  const ReadResult read = History(file, Database::Open::existing).baseline("main");
  EXPECT_EQ(read.records.size(), 2u);
  ASSERT_EQ(read.problems.size(), 1u);
  EXPECT_EQ(read.problems[0].line_number, 2);
  EXPECT_FALSE(read.problems[0].reason.empty());
}

TEST(History, NamesArePlainText) {
  const TempDir dir;
  History history(History::file_in(dir.path()), Database::Open::create);
  for (const std::string& name : {std::string(), std::string("a\nb"), std::string(101, 'n')})
    EXPECT_ERROR(history.save(name, std::vector{attention_record({})}), ErrorKind::usage, "name");
  EXPECT_ERROR(history.save("main", {}), ErrorKind::usage, "no records");
}

TEST(History, FilesThatAreNoHistoryAreRefused) {
  const TempDir dir;
  write_text(dir / "text.sqlite", std::string(5000, 'x'));
  EXPECT_ERROR(History(dir / "text.sqlite", Database::Open::existing), ErrorKind::usage,
               "not a database");
  EXPECT_ERROR(History(dir / "absent.sqlite", Database::Open::existing), ErrorKind::usage, "open");
  {
    const Database database(dir / "other.sqlite", Database::Open::create);
    database.run("CREATE TABLE something (x)");
  }
  EXPECT_ERROR(History(dir / "other.sqlite", Database::Open::existing), ErrorKind::usage,
               "version 0");
}

TEST(History, AnEmptyFileIsRefusedAndStaysEmpty) {
  const TempDir dir;
  write_text(dir / "empty.sqlite", "");
  EXPECT_ERROR(History(dir / "empty.sqlite", Database::Open::existing), ErrorKind::usage,
               "version 0");
  EXPECT_TRUE(std::filesystem::is_empty(dir / "empty.sqlite"));
}

TEST(History, IsReadWhileAnotherRunWritesToIt) {
  const TempDir dir;
  const auto file = History::file_in(dir.path());
  History(file, Database::Open::create).save("main", std::vector{attention_record({})});
  const Database other(file, Database::Open::existing);
  other.run("BEGIN IMMEDIATE");
  EXPECT_EQ(History(file, Database::Open::existing).baseline("main").records.size(), 1u);
}

TEST(History, ANoiseFloorIsThatOfTheVeryRowOrNone) {
  const TempDir dir;
  History history(History::file_in(dir.path()), Database::Open::create);
  Record record = attention_record({});
  record.machine.fingerprint = "here";
  const MeasuredNoise own{.fingerprint = "here",
                          .device = "cpu",
                          .implementation = "naive",
                          .row_key = workload_key(record),
                          .phase = "forward",
                          .fraction = 0.01,
                          .runs = kFewestFloorRuns};
  MeasuredNoise other = own, few = own;
  other.row_key = "another row";
  other.fraction = 0.5;
  few.runs = 2;
  history.save_noise(other);
  EXPECT_FALSE(history.noise(record, "forward"));
  history.save_noise(few);
  EXPECT_FALSE(history.noise(record, "forward")) << "too few runs";
  history.save_noise(own);
  EXPECT_EQ(history.noise(record, "forward")->fraction, 0.01);
  EXPECT_FALSE(history.noise(record, "backward"));
  EXPECT_EQ(noise_of(&history)(record, "forward")->source, "11 runs");
  EXPECT_FALSE(noise_of(nullptr)(record, "forward"));
  record.machine.fingerprint = "elsewhere";
  EXPECT_FALSE(history.noise(record, "forward"));
}

}  // namespace
}  // namespace ridgeline
