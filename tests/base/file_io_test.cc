#include "base/file_io.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "base/printable.h"
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

TEST(CheckWritable, AgreesWithWritingAndChangesNothing) {
  const TempDir dir;
  write_text(dir / "old.csv", "precious");
  std::filesystem::create_directories(dir / "folder");
  std::filesystem::create_symlink("old.csv", dir / "link.csv");
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  const size_t files = files_in(dir);
  for (const std::filesystem::path& path :
       {dir / "old.csv", dir / "link.csv", dir / "new.csv", dir / "x/y/new.csv", dir / "pipe",
        std::filesystem::path("/dev/null"), std::filesystem::path("/dev/stdout")})
    EXPECT_NO_THROW(check_writable(path)) << path;
  for (const std::filesystem::path& path :
       {dir / "folder", dir / "old.csv/new.csv", dir / "old.csv/x/new.csv",
        dir / std::string(300, 'n'), std::filesystem::path("/proc/new.csv"),
        std::filesystem::path("/proc/x/new.csv")}) {
    EXPECT_ERROR(check_writable(path), ErrorKind::usage, "cannot write '" + path.string() + "'");
    EXPECT_THROW(write_file_atomically(path, "text"), Error) << path;
  }
  EXPECT_EQ(files_in(dir), files);
  EXPECT_EQ(read_text(dir / "old.csv"), "precious");
}

}  // namespace
}  // namespace ridgeline
