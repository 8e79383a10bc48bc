#include "jit/disk_cache.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <thread>

#include "jit/run_child.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

const CacheEntry kEntry = {.code = std::string("machine\0code", 12), .log = "Used 3 registers"};

void expect_entry(const std::optional<CacheEntry>& entry, const CacheEntry& wanted = kEntry) {
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->code, wanted.code);
  EXPECT_EQ(entry->log, wanted.log);
}

fs::path only_file(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& item : fs::directory_iterator(directory)) files.push_back(item.path());
  EXPECT_EQ(files.size(), 1u) << ::testing::PrintToString(files);
  return files.empty() ? fs::path() : files[0];
}

void make_older(const fs::path& path, std::chrono::seconds age) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - age);
}

TEST(DiskCache, GivesBackWhatWasWrittenToAnotherCacheOfTheDirectory) {
  const TempDir directory;
  const DiskCache cache(directory / "a/b");
  EXPECT_FALSE(cache.read("key"));
  cache.write("key", kEntry);
  expect_entry(cache.read("key"));
  expect_entry(DiskCache(directory / "a/b").read("key"));
  EXPECT_FALSE(cache.read("ke"));
}

TEST(DiskCache, ItsDirectoryAndFilesArePrivate) {
  const TempDir directory;
  const mode_t before = umask(0);
  const DiskCache cache(directory / "cache");
  cache.write("key", kEntry);
  umask(before);
  EXPECT_EQ(fs::status(directory / "cache").permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(only_file(directory / "cache")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST(DiskCache, WithoutADirectoryNothingIsKept) {
  const DiskCache cache("");
  cache.write("key", kEntry);
  EXPECT_FALSE(cache.usable());
  EXPECT_FALSE(cache.read("key"));
}

// Each byte of the file counts: a flipped one is noticed, wherever it is.
TEST(DiskCache, ADamagedEntryIsNotThereUntilItIsWrittenAgain) {
  const TempDir directory;
  const DiskCache cache(directory.path());
  cache.write("key", kEntry);
  const fs::path file = only_file(directory.path());
  const std::string whole = read_text(file);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    write_text(file, damaged);
    EXPECT_FALSE(cache.read("key")) << "byte " << i;
  }
  cache.write("key", kEntry);
  expect_entry(cache.read("key"));
}

TEST(DiskCache, ATruncatedOrExtendedEntryIsNotThere) {
  const TempDir directory;
  const DiskCache cache(directory.path());
  cache.write("key", kEntry);
  const fs::path file = only_file(directory.path());
  const std::string whole = read_text(file);
  for (size_t size = 0; size < whole.size(); ++size) {
    write_text(file, whole.substr(0, size));
    EXPECT_FALSE(cache.read("key")) << size << " bytes";
  }
  write_text(file, whole + "x");
  EXPECT_FALSE(cache.read("key"));
}

TEST(DiskCache, AnEntryOfAnotherKeyIsNotThere) {
  const TempDir directory;
  const DiskCache cache(directory.path());
  cache.write("key", kEntry);
  fs::rename(only_file(directory.path()), directory / "other.kernel");
  EXPECT_FALSE(cache.read("other"));
}

TEST(DiskCache, AnEntryThatOthersMayWriteIsNotTrusted) {
  const TempDir directory;
  const DiskCache cache(directory.path());
  cache.write("key", kEntry);
  fs::permissions(only_file(directory.path()), fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(cache.read("key"));
}

TEST(DiskCache, AnEntryOfAnotherUserIsNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const TempDir directory;
  const DiskCache cache(directory.path());
  cache.write("key", kEntry);
  ASSERT_EQ(chown(only_file(directory.path()).c_str(), 12345, 12345), 0);
  EXPECT_FALSE(cache.read("key"));
}

TEST(DiskCache, LinksAndPipesInThePlaceOfAnEntryAreNotRead) {
  const TempDir directory;
  const DiskCache cache(directory / "cache");
  cache.write("key", kEntry);
  const fs::path file = only_file(directory / "cache");
  fs::rename(file, directory / "elsewhere");
  fs::create_symlink(directory / "elsewhere", file);
  EXPECT_FALSE(cache.read("key"));
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(cache.read("key"));  // and does not wait for a writer
  cache.write("key", kEntry);
  expect_entry(cache.read("key"));
}

TEST(DiskCache, ADirectoryThatOthersMayWriteIsNotUsed) {
  const TempDir directory;
  fs::permissions(directory.path(), fs::perms::all);
  const DiskCache cache(directory.path());
  EXPECT_FALSE(cache.usable());
  cache.write("key", kEntry);
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

TEST(DiskCache, ADirectoryOfAnotherUserIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  const TempDir directory;
  ASSERT_EQ(chown(directory.path().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(DiskCache(directory.path()).usable());
}

TEST(DiskCache, APlaceThatCannotBeADirectoryIsNotUsed) {
  const TempDir directory;
  write_text(directory / "file", "");
  for (const fs::path& path : {directory / "file", directory / "file/cache",
                               fs::path("/proc/ridgeline"), fs::path("/dev/null")}) {
    const DiskCache cache(path);
    cache.write("key", kEntry);
    EXPECT_FALSE(cache.usable()) << path;
    EXPECT_FALSE(cache.read("key")) << path;
  }
}

TEST(DiskCache, ADirectoryThatVanishesIsNoTrouble) {
  const TempDir directory;
  const DiskCache cache(directory / "cache");
  fs::remove(directory / "cache");
  cache.write("key", kEntry);
  EXPECT_FALSE(cache.read("key"));
}

TEST(DiskCache, OldTemporariesAreRemovedAndYoungOnesAreNot) {
  const TempDir directory;
  const DiskCache cache(directory.path());
  write_text(directory / ".writing-1-2-3", "half");
  write_text(directory / ".writing-4-5-6", "half");
  write_text(directory / "notes.txt", "not ours");
  make_older(directory / ".writing-1-2-3", std::chrono::hours(2));
  make_older(directory / "notes.txt", std::chrono::hours(2));
  cache.write("key", kEntry);
  EXPECT_FALSE(fs::exists(directory / ".writing-1-2-3"));
  EXPECT_TRUE(fs::exists(directory / ".writing-4-5-6"));
  EXPECT_TRUE(fs::exists(directory / "notes.txt"));
}

TEST(DiskCache, BeyondItsLimitTheLeastRecentlyUsedGo) {
  const TempDir directory;
  const CacheEntry large = {.code = std::string(10000, 'c'), .log = ""};
  const DiskCache cache(directory.path(), Bytes{35000});
  for (const char* key : {"a", "b", "c"}) {
    cache.write(key, large);
    make_older(directory / (std::string(key) + ".kernel"), std::chrono::hours(1));
  }
  expect_entry(cache.read("a"), large);  // used now
  cache.write("d", large);
  EXPECT_LE(cache_size(directory.path()).count, 35000);
  EXPECT_TRUE(cache.read("a"));
  EXPECT_TRUE(cache.read("d"));
  EXPECT_NE(cache.read("b").has_value(), cache.read("c").has_value());
}

TEST(DiskCache, TheNewestOfAPrefixServesAndDamagedOnesArePassedOver) {
  const TempDir directory;
  const DiskCache cache(directory.path());
  cache.write("kernel-1", {.code = "one", .log = ""});
  cache.write("kernel-2", {.code = "two", .log = ""});
  cache.write("other-3", {.code = "three", .log = ""});
  make_older(directory / "kernel-1.kernel", std::chrono::hours(1));
  expect_entry(cache.read_newest("kernel-"), {.code = "two", .log = ""});
  write_text(directory / "kernel-2.kernel", "damaged");
  expect_entry(cache.read_newest("kernel-"), {.code = "one", .log = ""});
  EXPECT_FALSE(cache.read_newest("none-"));
}

TEST(DiskCache, ManyWritersOfOneKeyLeaveOneWholeEntry) {
  const TempDir directory;
  const auto writer = [&](char letter) {
    const DiskCache cache(directory.path());
    for (int i = 0; i < 20; ++i) {
      cache.write("key", {.code = std::string(50000, letter), .log = ""});
      const auto entry = cache.read("key");
      if (!entry || entry->code != std::string(50000, entry->code[0])) return 1;
    }
    return 0;
  };
  std::vector<pid_t> children;
  for (char letter : {'a', 'b', 'c'}) {
    const pid_t child = fork();
    if (child == 0) _exit(writer(letter));
    children.push_back(child);
  }
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (char letter : {'x', 'y'}) threads.emplace_back([&, letter] { wrong += writer(letter); });
  }
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(wrong, 0);
  only_file(directory.path());
}

// Killed at some moment of its work, again and again: what is under the name is whole.
TEST(DiskCache, AKilledWriterLeavesNoHalfEntry) {
  const TempDir directory;
  const CacheEntry large = {.code = std::string(4 << 20, 'k'), .log = ""};
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      const DiskCache cache(directory.path());
      while (true) cache.write("key", large);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + 7 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const DiskCache cache(directory.path());
    if (fs::exists(directory / "key.kernel")) expect_entry(cache.read("key"), large);
  }
}

TEST(Child, DISABLED_WritesToTheCache) {
  const DiskCache cache(std::getenv("RIDGELINE_TEST_CACHE"));
  for (const char* key : {"a", "b"}) {
    cache.write(key, {.code = std::string(100000, 'x'), .log = ""});
    EXPECT_FALSE(cache.read(key));
  }
}

TEST(DiskCache, AFullDiskIsOneWarningAndNoLeftover) {
  const TempDir directory;
  const ChildResult child = run_child(
      "WritesToTheCache", {{"RIDGELINE_TEST_CACHE", directory / "cache"}}, {.file_bytes = 50000});
  EXPECT_EQ(child.exit_code, 0) << child.out << child.err;
  EXPECT_EQ(std::count(child.err.begin(), child.err.end(), '\n'), 1) << child.err;
  EXPECT_TRUE(contains(child.err, "File too large")) << child.err;
  EXPECT_TRUE(fs::is_empty(directory / "cache"));
}

}  // namespace
}  // namespace ridgeline
