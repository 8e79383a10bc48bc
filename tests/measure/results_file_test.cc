#include "measure/results_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "measure/read_results.h"
#include "measure/record_json.h"
#include "measure/test_support.h"

namespace ridgeline {
namespace {

Record numbered(int number) {
  Record record = attention_record({});
  record.workload["number"] = number;
  return record;
}

int number_of(const Record& record) {
  return record.workload["number"].get<int>();
}

TEST(ResultsFile, AppendsOneLinePerRecordAcrossOpenings) {
  const TempDir dir;
  const auto path = dir / "deep/er/results.jsonl";
  {
    ResultsFile file(path);
    file.append(numbered(0));
    file.append(numbered(1));
  }
  ResultsFile(path).append(numbered(2));
  const ReadResult result = read_results(path);
  EXPECT_TRUE(result.problems.empty());
  ASSERT_EQ(result.records.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(result.records[static_cast<size_t>(i)], numbered(i));
}

TEST(ResultsFile, EachRecordIsInTheFileWhenAppendReturns) {
  const TempDir dir;
  ResultsFile file(dir / "r.jsonl");
  file.append(numbered(0));
  EXPECT_EQ(read_text(dir / "r.jsonl"), to_line(numbered(0)));
}

// Cuts the last line at many positions.
TEST(ResultsFile, ALineCutOffAnywhereIsRemovedOnOpening) {
  const TempDir dir;
  const std::string first = to_line(numbered(0)), second = to_line(numbered(1));
  for (size_t kept = 1; kept + 1 < second.size(); kept += 41) {
    const auto path = dir / "r.jsonl";
    write_text(path, first + second.substr(0, kept));
    ResultsFile file(path);
    ASSERT_TRUE(file.repair()) << kept;
    EXPECT_NE(file.repair()->find("cut off after " + std::to_string(kept) + " bytes"),
              std::string::npos);
    file.append(numbered(2));
    EXPECT_EQ(read_text(path), first + to_line(numbered(2))) << kept;
  }
}

TEST(ResultsFile, AFileOfOneCutLineStartsAfresh) {
  const TempDir dir;
  write_text(dir / "r.jsonl", to_line(numbered(0)).substr(0, 40));
  ResultsFile file(dir / "r.jsonl");
  EXPECT_TRUE(file.repair());
  EXPECT_EQ(read_text(dir / "r.jsonl"), "");
}

TEST(ResultsFile, AWholeRecordThatOnlyLacksItsNewlineIsKept) {
  const TempDir dir;
  std::string line = to_line(numbered(0));
  line.pop_back();
  write_text(dir / "r.jsonl", line);
  ResultsFile file(dir / "r.jsonl");
  ASSERT_TRUE(file.repair());
  file.append(numbered(1));
  EXPECT_EQ(read_results(dir / "r.jsonl").records.size(), 2u);
}

TEST(ResultsFile, AGoodFileNeedsNoRepair) {
  const TempDir dir;
  write_text(dir / "r.jsonl", to_line(numbered(0)));
  EXPECT_FALSE(ResultsFile(dir / "r.jsonl").repair());
}

TEST(ResultsFile, RefusesToTouchAFileOfSomethingElse) {
  const TempDir dir;
  write_text(dir / "thesis.txt", "line one\nmy last line without a newline");
  EXPECT_ERROR(ResultsFile(dir / "thesis.txt"), ErrorKind::usage, "not a record");
  EXPECT_EQ(read_text(dir / "thesis.txt"), "line one\nmy last line without a newline");
}

TEST(ResultsFile, PathsThatCannotBeWrittenAreUsageErrors) {
  const TempDir dir;
  write_text(dir / "file", "x");
  EXPECT_ERROR(ResultsFile{dir.path()}, ErrorKind::usage, "directory");
  EXPECT_ERROR(ResultsFile(dir / "file/below.jsonl"), ErrorKind::usage, "file");
  EXPECT_ERROR(ResultsFile(""), ErrorKind::usage, "cannot write ''");
  EXPECT_ERROR(ResultsFile(dir / std::string(300, 'n')), ErrorKind::usage, "too long");
}

TEST(ResultsFile, ASecondWriterIsTurnedAway) {
  const TempDir dir;
  const ResultsFile first(dir / "r.jsonl");
  EXPECT_ERROR(ResultsFile(dir / "r.jsonl"), ErrorKind::usage, "another run");
}

TEST(ResultsFile, APipeIsRefusedAsItKeepsNothing) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "a.jsonl").c_str(), 0600), 0);
  EXPECT_ERROR(ResultsFile(dir / "a.jsonl"), ErrorKind::usage, "it is a pipe");
}

TEST(ResultsFile, AFullDeviceIsAnEnvironmentError) {
  ResultsFile file("/dev/full");
  EXPECT_ERROR(file.append(numbered(0)), ErrorKind::environment, "No space left");
}

TEST(ResultsFile, ADiskThatFillsUpInTheMiddleLosesNothingMeasured) {
  const TempDir dir;
  const auto path = dir / "r.jsonl";
  const size_t line = to_line(numbered(0)).size();
  const int status = in_child([&] {
    const rlimit limit{line * 5 / 2, line * 5 / 2};
    setrlimit(RLIMIT_FSIZE, &limit);
    ResultsFile file(path);
    file.append(numbered(0));
    file.append(numbered(1));
    try {
      file.append(numbered(2));  // half of it fits
    } catch (const Error& error) {
      return exit_code(error.kind());
    }
    return 0;
  });
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 4);
  EXPECT_EQ(read_text(path), to_line(numbered(0)) + to_line(numbered(1)));
}

TEST(ResultsFile, ARecordThatNoReaderWouldTakeIsRefused) {
  const TempDir dir;
  ResultsFile file(dir / "r.jsonl");
  Record record = numbered(0);
  record.error = std::string(kMaxLineBytes, 'x');
  EXPECT_ERROR(file.append(record), ErrorKind::internal, "4.00 MiB");
  EXPECT_EQ(read_text(dir / "r.jsonl"), "");
}

// A child appends and acknowledges each record through a pipe, until it is killed at a random
// moment.
TEST(ResultsFile, KillsAtRandomMomentsLoseAtMostTheRecordBeingWritten) {
  const TempDir dir;
  const auto path = dir / "r.jsonl";
  std::mt19937 random(42);
  int next = 0;
  for (int round = 0; round < 25; ++round) {
    int acknowledgements[2];
    ASSERT_EQ(pipe(acknowledgements), 0);
    const pid_t child = fork();
    if (child == 0) {
      ResultsFile file(path);
      for (int number = next;; ++number) {
        Record record = numbered(number);
        record.error = std::string(50'000, 'x');  // many pages, so that a kill may split the write
        file.append(record);
        if (write(acknowledgements[1], &number, sizeof number) < 0) _exit(1);
      }
    }
    close(acknowledgements[1]);
    usleep(std::uniform_int_distribution<useconds_t>(0, 15'000)(random));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    int acknowledged = next - 1;
    while (read(acknowledgements[0], &acknowledged, sizeof acknowledged) == sizeof acknowledged) {
    }
    close(acknowledgements[0]);

    if (!std::filesystem::exists(path)) continue;  // killed before the file was created
    ResultsFile resumed(path);
    const ReadResult result = read_results(path);
    EXPECT_TRUE(result.problems.empty());
    const int written = static_cast<int>(result.records.size());
    EXPECT_GE(written, acknowledged + 1);
    EXPECT_LE(written, acknowledged + 2);
    for (int i = next; i < written; ++i)
      EXPECT_EQ(number_of(result.records[static_cast<size_t>(i)]), i);
    next = written;
  }
  EXPECT_GT(next, 0);
}

}  // namespace
}  // namespace ridgeline
