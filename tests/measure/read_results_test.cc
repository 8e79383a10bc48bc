#include "measure/read_results.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "measure/record_json.h"
#include "measure/test_support.h"

namespace ridgeline {
namespace {

const std::string kGood = to_line(attention_record({}));

ReadResult read_back(const std::string& content) {
  const TempDir dir;
  write_text(dir / "r.jsonl", content);
  return read_results(dir / "r.jsonl");
}

// The damage must be on line 2, between two good records that are both read.
void expect_damage(const std::string& line, const std::string& reason) {
  const ReadResult result = read_back(kGood + line + "\n" + kGood);
  EXPECT_EQ(result.records.size(), 2u);
  ASSERT_EQ(result.problems.size(), 1u);
  EXPECT_EQ(result.problems[0].line_number, 2);
  EXPECT_HAS(result.problems[0].reason, reason);
  EXPECT_LE(result.problems[0].reason.size(), 300u);
  for (const char c : result.problems[0].reason) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

std::string good_with(const char* key, const Json& value) {
  Json json = to_json(attention_record({}));
  json[key] = value;
  return json.dump();
}

TEST(ReadResults, LinesThatAreNotJson) {
  expect_damage("hello", "not JSON");
  expect_damage("{\"schema\":1,", "not JSON");
  expect_damage("{\"schema\":1}}", "not JSON");
  expect_damage("{\"a\":NaN}", "not JSON");
  expect_damage("\"\xff\xfe\"", "not JSON");
  expect_damage("\x1b[2J\x07", "not JSON");
  expect_damage(std::string(100, '\0'), "not JSON");
  expect_damage("\"" + std::string(1 << 20, 'x'), "not JSON");
}

TEST(ReadResults, JsonThatIsNoRecord) {
  expect_damage("[1,2,3]", "array instead of a record");
  expect_damage("{}", "'schema' is missing");
  expect_damage("{\"schema\":1}", "'study' is missing");
  expect_damage(good_with("device", 7), "'device'");
  expect_damage(good_with("series", {{"\x1b[2J", 7}}), "x1b");
  expect_damage(good_with("series", {{std::string(1 << 20, 'n'), 7}}), "nnn...");
}

TEST(ReadResults, AnotherSchemaVersion) {
  expect_damage(good_with("schema", 2), "version 2");
  expect_damage(good_with("schema", std::string(1 << 20, 'v')), "...");
  expect_damage(good_with("schema", nullptr), "null");
}

TEST(ReadResults, DeepNestingIsRefusedBeforeParsing) {
  expect_damage(std::string(1 << 20, '['), "deeper than 64");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  expect_damage(objects, "deeper than 64");
}

TEST(ReadResults, BracketsInsideStringsAreNotNesting) {
  std::string brackets(500, '[');
  brackets += "\\\"{{{";
  const ReadResult result = read_back(good_with("error", brackets) + "\n");
  EXPECT_EQ(result.records.size(), 1u);
}

TEST(ReadResults, AnObjectOfVeryManyKeysIsRefusedAndQuickly) {
  std::string line = "{";
  for (int i = 0; i < 200'000; ++i) line += "\"k" + std::to_string(i) + "\":0,";
  line += "\"z\":0}";
  const auto start = std::chrono::steady_clock::now();
  expect_damage(line, "keys");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(ReadResults, LinesBeyondTheLimitAreSkipped) {
  expect_damage(std::string(kMaxLineBytes + 1, 'x'), "4.00 MiB");
  expect_damage(std::string(kMaxLineBytes * 5, 'x'), "4.00 MiB");
}

TEST(ReadResults, ACutOffLastLineIsReportedAsSuch) {
  const ReadResult result = read_back(kGood + kGood.substr(0, 30));
  EXPECT_EQ(result.records.size(), 1u);
  ASSERT_EQ(result.problems.size(), 1u);
  EXPECT_EQ(result.problems[0].line_number, 2);
  EXPECT_HAS(result.problems[0].reason, "cut off after 30 bytes");
}

TEST(ReadResults, AWholeLastLineWithoutANewlineCounts) {
  const ReadResult result = read_back(kGood + kGood.substr(0, kGood.size() - 1));
  EXPECT_EQ(result.records.size(), 2u);
  EXPECT_TRUE(result.problems.empty());
}

TEST(ReadResults, BlankLinesAndForeignLineEndsAreFine) {
  const std::string line = kGood.substr(0, kGood.size() - 1);
  const ReadResult result = read_back("\n  \t\n" + line + "\r\n\r\n" + line);
  EXPECT_EQ(result.records.size(), 2u);
  EXPECT_TRUE(result.problems.empty());
}

TEST(ReadResults, AnEmptyFileHoldsNothing) {
  const ReadResult result = read_back("");
  EXPECT_TRUE(result.records.empty());
  EXPECT_TRUE(result.problems.empty());
}

TEST(ReadResults, RandomDamageNeverCrashesAndNeverHidesTheOtherLines) {
  std::mt19937 random(42);
  for (int round = 0; round < 300; ++round) {
    std::string line = kGood.substr(0, kGood.size() - 1);
    for (int i = 0; i < 1 + round % 5; ++i) {
      char byte = static_cast<char>(random() & 0xff);
      if (byte == '\n') byte = '{';
      line[random() % line.size()] = byte;
    }
    const ReadResult result = read_back(kGood + line + "\n" + kGood);
    EXPECT_EQ(result.records.size() + result.problems.size(), 3u);
    EXPECT_GE(result.records.size(), 2u);
  }
}

TEST(ReadResults, FilesThatCannotBeReadAreUsageErrors) {
  const TempDir dir;
  EXPECT_ERROR(read_results(dir / "absent.jsonl"), ErrorKind::usage, "No such file");
  EXPECT_ERROR(read_results(dir.path()), ErrorKind::usage, "not a regular file");
  EXPECT_ERROR(read_results("/dev/zero"), ErrorKind::usage, "not a regular file");
}

}  // namespace
}  // namespace ridgeline
