#include "base/file_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <set>
#include <thread>

#include "base/printable.h"
#include "base/temporary.h"
#include "measure/test_support.h"

namespace ridgeline {
namespace {

size_t files_in(const TempDir& dir) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(dir.path()), {}));
}

TEST(WriteFileAtomically, ReplacesTheContentAndLeavesNoTemporary) {
  const TempDir dir;
  write_file_atomically(dir / "a.csv", "old and longer");
  write_file_atomically(dir / "a.csv", "new");
  EXPECT_EQ(read_text(dir / "a.csv"), "new");
  EXPECT_EQ(files_in(dir), 1u);
}

TEST(WriteFileAtomically, CreatesParentDirectories) {
  const TempDir dir;
  write_file_atomically(dir / "x/y/a.csv", "text");
  EXPECT_EQ(read_text(dir / "x/y/a.csv"), "text");
}

TEST(WriteFileAtomically, WritesThroughALinkAndKeepsThePermissions) {
  const TempDir dir;
  write_text(dir / "real.csv", "old");
  chmod((dir / "real.csv").c_str(), 0640);
  std::filesystem::create_symlink("real.csv", dir / "link.csv");
  write_file_atomically(dir / "link.csv", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link.csv"));
  EXPECT_EQ(read_text(dir / "real.csv"), "new");
  struct stat facts = {};
  ASSERT_EQ(stat((dir / "real.csv").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0640u);
}

TEST(WriteFileAtomically, OnAFullDiskKeepsTheOldContent) {
  const TempDir dir;
  write_text(dir / "a.csv", "precious");
  const int status = in_child([&] {
    const rlimit limit{100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_file_atomically(dir / "a.csv", std::string(1000, 'x'));
    } catch (const Error& error) {
      return exit_code(error.kind());
    }
    return 0;
  });
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 4);
  EXPECT_EQ(read_text(dir / "a.csv"), "precious");
  EXPECT_EQ(files_in(dir), 1u);
}

TEST(WriteFileAtomically, WhatEndsBetweenTwoPiecesKeepsTheOldContent) {
  const TempDir dir;
  write_text(dir / "a.csv", "precious");
  EXPECT_ERROR(write_file_atomically(dir / "a.csv",
                                     [](const Append& append) {
                                       append("new");
                                       throw Error(ErrorKind::internal, "no more");
                                     }),
               ErrorKind::internal, "no more");
  EXPECT_EQ(read_text(dir / "a.csv"), "precious");
  EXPECT_EQ(files_in(dir), 1u);
  write_file_atomically(dir / "a.csv", [](const Append& append) {
    for (const char* piece : {"one, ", "two"}) append(piece);
  });
  EXPECT_EQ(read_text(dir / "a.csv"), "one, two");
}

TEST(WriteFileAtomically, WritesToDevicesDirectlyAndReportsAFullOne) {
  write_file_atomically("/dev/null", "text");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_ERROR(write_file_atomically("/dev/full", "text"), ErrorKind::environment, "No space left");
}

TEST(WriteFileAtomically, ADirectoryIsAUsageError) {
  const TempDir dir;
  EXPECT_ERROR(write_file_atomically(dir.path(), "text"), ErrorKind::usage, "directory");
}

TEST(ReadFile, GivesAllOfARegularFileAndRefusesOthers) {
  const TempDir dir;
  const std::string text("zero \0 and \xff", 12);
  write_text(dir / "file", text);
  EXPECT_EQ(read_file(dir / "file", static_cast<int64_t>(text.size())), text);
  EXPECT_ERROR(read_file(dir / "file", static_cast<int64_t>(text.size()) - 1), ErrorKind::usage, "12 bytes");
  EXPECT_ERROR(read_file(dir / "missing", 100), ErrorKind::usage, "cannot read");
  EXPECT_ERROR(read_file(dir.path(), 100), ErrorKind::usage, "no regular file");
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(read_file(dir / "pipe", 100), ErrorKind::usage, "no regular file");
}

TEST(WriteAll, LeavesTheHandlingOfTheFileSizeSignalAsItWas) {
  const TempDir dir;
  write_file_atomically(dir / "a", "text");
  struct sigaction now = {};
  sigaction(SIGXFSZ, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

TEST(Printable, EscapesWhatTerminalsActUpon) {
  EXPECT_EQ(printable("plain text"), "plain text");
  EXPECT_EQ(printable(std::string("a\n\t\x1b[2J\x7f\0", 9)), "a\\n\\t\\x1b[2J\\x7f\\x00");
  EXPECT_EQ(printable("\xc3\xa9"), "\\xc3\\xa9");
}

TEST(Printable, CutsLongTextBetweenEscapes) {
  EXPECT_EQ(printable("0123456789", 10), "0123456789");
  EXPECT_EQ(printable("0123456789a", 10), "0123456...");
  EXPECT_EQ(printable("01234\x01\x01\x01", 10), "01234...");
  EXPECT_EQ(printable(std::string(1 << 20, 'x')).size(), 200u);
}

TEST(WriteFileAtomically, ALinkThatLeadsNowhereStays) {
  const TempDir dir;
  std::filesystem::create_symlink("missing.csv", dir / "link.csv");
  EXPECT_ERROR(write_file_atomically(dir / "link.csv", "text"), ErrorKind::usage,
               "a link to 'missing.csv', which is not there");
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link.csv"));
  EXPECT_EQ(files_in(dir), 1u);
}

TEST(WriteFileAtomically, APipeIsWrittenOnlyForAReader) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(write_file_atomically(dir / "pipe", "text"), ErrorKind::usage, "nobody reads");
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  std::string got;
  const FileDescriptor reading(open((dir / "pipe").c_str(), O_RDONLY | O_NONBLOCK));
  fcntl(reading.get(), F_SETFL, 0);
  // Held from the check to the writing, so that the reader sees no end before or between them.
  FileDescriptor held = check_writable(dir / "pipe");
  std::thread reader([&] {
    char chunk[4096];
    for (ssize_t count; (count = read(reading.get(), chunk, sizeof chunk)) > 0;)
      got.append(chunk, static_cast<size_t>(count));
  });
  write_file_atomically(dir / "pipe", text);
  held = FileDescriptor();
  reader.join();
  EXPECT_EQ(got, text);
}

TEST(WriteFileAtomically, AReaderThatGoesAwayIsAnErrorAndNoSignal) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  FileDescriptor reading(open((dir / "pipe").c_str(), O_RDONLY | O_NONBLOCK));
  EXPECT_ERROR(write_file_atomically(dir / "pipe",
                                     [&](const Append& append) {
                                       reading = FileDescriptor();
                                       append("text");
                                     }),
               ErrorKind::environment, "Broken pipe");
}

TEST(CheckWritable, AgreesWithWritingAndChangesNothing) {
  const TempDir dir;
  write_text(dir / "old.csv", "precious");
  std::filesystem::create_directories(dir / "folder");
  std::filesystem::create_symlink("old.csv", dir / "link.csv");
  const size_t files = files_in(dir);
  for (const std::filesystem::path& path :
       {dir / "old.csv", dir / "link.csv", dir / "new.csv", dir / "x/new.csv",
        dir / std::string(250, 'n'), std::filesystem::path("/dev/null"),
        std::filesystem::path("/dev/stdout")})
    EXPECT_NO_THROW((void)check_writable(path)) << path;
  for (const std::filesystem::path& path :
       {dir / "folder", dir / "old.csv/new.csv", dir / "old.csv/x/new.csv",
        dir / std::string(300, 'n'), std::filesystem::path("/proc/new.csv"),
        std::filesystem::path("/proc/x/new.csv")}) {
    EXPECT_ERROR((void)check_writable(path), ErrorKind::usage,
                 "cannot write '" + path.string() + "'");
    EXPECT_THROW(write_file_atomically(path, "text"), Error) << path;
  }
  EXPECT_EQ(files_in(dir), files);
  EXPECT_EQ(read_text(dir / "old.csv"), "precious");
}

TEST(CheckWritable, TwoMissingFoldersAreASlip) {
  const TempDir dir;
  EXPECT_ERROR((void)check_writable(dir / "x/y/new.csv"), ErrorKind::usage, "neither the folder");
  EXPECT_EQ(files_in(dir), 0u);
}

TEST(CreateNewFile, NeverTakesAFileOrALinkThatIsThere) {
  const TempDir dir;
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) {
    const NewFile made = create_new_file(AT_FDCWD, (dir / "new-").string(), 0600);
    ASSERT_EQ(made.error, 0);
    EXPECT_TRUE(names.insert(made.name).second);
  }
  EXPECT_EQ(files_in(dir), 100u);
  EXPECT_EQ(create_new_file(AT_FDCWD, (dir / "missing/new-").string(), 0600).error, ENOENT);
}

TEST(IsSameFile, SeesThroughLinksAndWaysToWriteAPath) {
  const TempDir dir;
  write_text(dir / "a/file", "text");
  std::filesystem::create_directory_symlink("a", dir / "b");
  std::filesystem::create_hard_link(dir / "a/file", dir / "a/twin");
  EXPECT_TRUE(is_same_file(dir / "a/file", dir / "b/file"));
  EXPECT_TRUE(is_same_file(dir / "a/file", dir / "a/../a/./file"));
  EXPECT_TRUE(is_same_file(dir / "a/file", dir / "a/twin"));
  EXPECT_TRUE(is_same_file(dir / "a/new", dir / "b/new")) << "not there yet";
  EXPECT_TRUE(is_same_file(dir / "c/d/new", dir / "c/../c/d/new"));
  EXPECT_FALSE(is_same_file(dir / "a/file", dir / "a/new"));
  EXPECT_FALSE(is_same_file(dir / "a/new", dir / "c/new"));
}

}  // namespace
}  // namespace ridgeline
