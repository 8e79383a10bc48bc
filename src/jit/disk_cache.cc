#include "jit/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <vector>

#include "base/file_io.h"
#include "base/print.h"
#include "base/sha256.h"
#include "base/sort_by.h"
#include "base/temporary.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "RIDGELINE-KERNEL";
constexpr uint64_t kFormat = 1;
constexpr std::string_view kSuffix = ".kernel";
constexpr std::string_view kTemporary = ".writing-";
constexpr time_t kAbandonedSeconds = 3600;  // no writer takes that long
constexpr size_t kLargestEntry = 256u << 20;

// Whatever somebody else may change may have been changed.
bool is_private(const struct stat& facts) {
  return facts.st_uid == geteuid() && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string number(uint64_t value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// An entry: magic, format, then key, code and log, each after its size, and the checksum of it all.
std::string pack(const std::string& key, const CacheEntry& entry) {
  std::string bytes(kMagic);
  bytes += number(kFormat);
  for (const std::string* part : {&key, &entry.code, &entry.log}) {
    bytes += number(part->size());
    bytes += *part;
  }
  const Sha256::Digest digest = sha256(bytes);
  bytes.append(digest.begin(), digest.end());
  return bytes;
}

// Takes the next number or text off the front; false: there is not that much.
bool take(std::string_view& bytes, uint64_t& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return true;
}

bool take(std::string_view& bytes, std::string& part) {
  uint64_t size = 0;
  if (!take(bytes, size) || size > bytes.size()) return false;
  part = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return true;
}

struct Unpacked {
  std::string key;
  CacheEntry entry;
};

std::optional<Unpacked> unpack(std::string_view bytes) {
  constexpr size_t kDigest = std::tuple_size_v<Sha256::Digest>;
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + kDigest) return std::nullopt;
  const std::string_view body = bytes.substr(0, bytes.size() - kDigest);
  const Sha256::Digest digest = sha256(body);
  if (std::memcmp(digest.data(), bytes.data() + body.size(), kDigest) != 0) return std::nullopt;
  std::string_view rest = body.substr(kMagic.size());
  uint64_t format = 0;
  Unpacked unpacked;
  if (!take(rest, format) || format != kFormat || !take(rest, unpacked.key) ||
      !take(rest, unpacked.entry.code) || !take(rest, unpacked.entry.log) || !rest.empty())
    return std::nullopt;
  return unpacked;
}

std::optional<std::string> read_whole(int fd, size_t size) {
  std::string bytes(size, '\0');
  size_t have = 0;
  while (have < size) {
    const ssize_t got = ::read(fd, bytes.data() + have, size - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    have += static_cast<size_t>(got);
  }
  return bytes;
}

struct Listed {
  std::string name;
  off_t size = 0;
  timespec used = {};
};

// The regular files of a directory.
std::vector<Listed> list(int directory) {
  std::vector<Listed> files;
  const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const stream = fd >= 0 ? fdopendir(fd) : nullptr;
  if (!stream) {
    if (fd >= 0) close(fd);
    return files;
  }
  while (const dirent* item = readdir(stream)) {
    struct stat facts = {};
    if (fstatat(directory, item->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(facts.st_mode))
      files.push_back({item->d_name, facts.st_size, facts.st_mtim});
  }
  closedir(stream);
  return files;
}

bool is_entry(const Listed& file) {
  return file.name.ends_with(kSuffix);
}

std::pair<time_t, long> used_at(const Listed& file) {
  return {file.used.tv_sec, file.used.tv_nsec};
}

std::atomic<bool> warns = true;

// Creates the directory if need be, and opens it if it is private; says why not otherwise.
int open_directory(const fs::path& directory, std::string& problem) {
  std::error_code no_parent;
  if (directory.has_parent_path()) fs::create_directories(directory.parent_path(), no_parent);
  const int not_made = mkdir(directory.c_str(), 0700) == 0 ? 0 : errno;
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    const int reason = not_made && not_made != EEXIST ? not_made : errno;
    problem = no_parent ? no_parent.message() : errno_text(reason);
    return -1;
  }
  struct stat facts = {};
  if (fstat(fd, &facts) == 0 && is_private(facts)) return fd;
  problem = facts.st_uid == geteuid() ? "others may write to it (chmod go-w makes it private)"
                                      : "it belongs to another user";
  close(fd);
  return -1;
}

}  // namespace

void set_cache_warnings(bool on) {
  warns = on;
}

void warn_about_cache(const std::string& text) {
  static std::atomic<bool> warned = false;
  if (warns && !warned.exchange(true)) say("kernel cache: {}", text);
}

DiskCache::DiskCache(const fs::path& directory, Bytes limit)
    : directory_(directory), limit_(limit) {
  if (directory.empty()) return;
  std::string problem;
  directory_fd_ = open_directory(directory, problem);
  if (directory_fd_ < 0)
    warn_about_cache(fmt::format("'{}' is not used: {}; kernels are compiled anew in each process",
                                 directory.string(), problem));
}

DiskCache::~DiskCache() {
  if (directory_fd_ >= 0) close(directory_fd_);
}

std::optional<CacheEntry> DiskCache::read(const std::string& key) const {
  if (!usable()) return std::nullopt;
  const std::string name = key + std::string(kSuffix);
  // Without waiting, should the name be a pipe.
  const FileDescriptor file(
      openat(directory_fd_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts = {};
  if (file.get() < 0 || fstat(file.get(), &facts) != 0) return std::nullopt;
  std::optional<Unpacked> found;
  if (S_ISREG(facts.st_mode) && is_private(facts) &&
      static_cast<size_t>(facts.st_size) <= kLargestEntry) {
    const auto bytes = read_whole(file.get(), static_cast<size_t>(facts.st_size));
    if (bytes) found = unpack(*bytes);
  }
  if (!found || found->key != key) {
    warn_about_cache(fmt::format("'{}' is damaged or not ours: the kernel is compiled again",
                                 (directory_ / name).string()));
    return std::nullopt;
  }
  futimens(file.get(), nullptr);  // used now
  return std::move(found->entry);
}

std::optional<CacheEntry> DiskCache::read_newest(const std::string& prefix) const {
  if (!usable()) return std::nullopt;
  std::vector<Listed> files = list(directory_fd_);
  std::erase_if(
      files, [&](const Listed& file) { return !is_entry(file) || !file.name.starts_with(prefix); });
  sort_by_falling(files, used_at);
  for (const Listed& file : files)
    if (auto entry = read(file.name.substr(0, file.name.size() - kSuffix.size()))) return entry;
  return std::nullopt;
}

bool DiskCache::write_file(const std::string& name, std::string_view bytes) const {
  const NewFile temporary = create_new_file(directory_fd_, kTemporary, 0600);
  int problem = temporary.error;
  if (!problem) problem = write_all(temporary.file.get(), bytes);
  if (!problem) problem = sync_data(temporary.file.get());
  if (!problem && renameat(directory_fd_, temporary.name.c_str(), directory_fd_, name.c_str()) != 0)
    problem = errno;
  if (problem && !temporary.error) unlinkat(directory_fd_, temporary.name.c_str(), 0);
  if (problem)
    warn_about_cache(fmt::format("cannot write to '{}': {}; new kernels are not kept",
                                 directory_.string(), errno_text(problem)));
  return problem == 0;
}

void DiskCache::write(const std::string& key, const CacheEntry& entry) const {
  if (!usable()) return;
  // Even where the disk is full: room may be made for the next one.
  write_file(key + std::string(kSuffix), pack(key, entry));
  clean();
}

void DiskCache::clean() const {
  std::vector<Listed> files = list(directory_fd_);
  const time_t now = time(nullptr);
  for (const Listed& file : files)
    if (file.name.starts_with(kTemporary) && file.used.tv_sec + kAbandonedSeconds < now)
      unlinkat(directory_fd_, file.name.c_str(), 0);
  std::erase_if(files, [](const Listed& file) { return !is_entry(file); });
  sort_by(files, used_at);
  int64_t total = 0;
  for (const Listed& file : files) total += file.size;
  for (size_t i = 0; i < files.size() && total > limit_.count; ++i) {
    unlinkat(directory_fd_, files[i].name.c_str(), 0);
    total -= files[i].size;
  }
}

Bytes cache_size(const fs::path& directory) {
  const FileDescriptor opened(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Bytes total;
  if (opened.get() >= 0)
    for (const Listed& file : list(opened.get()))
      if (is_entry(file)) total += {file.size};
  return total;
}

}  // namespace ridgeline
