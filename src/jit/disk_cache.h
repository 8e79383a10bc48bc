// Compiled kernels on the disk, in a private directory. Nothing that goes wrong there breaks a run:
// what cannot be read or trusted is not there, what cannot be written is not kept, and one line per
// process says so.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace ridgeline {

struct CacheEntry {
  std::string code;
  std::string log;
};

// Safe to be used by several threads and processes at once.
class DiskCache {
 public:
  static constexpr Bytes kDefaultLimit = {512ll << 20};

  // Creates the directory, for its owner only. An empty path is a cache that keeps nothing.
  explicit DiskCache(const std::filesystem::path& directory, Bytes limit = kDefaultLimit);
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  // Whether the directory exists and belongs to this user alone.
  bool usable() const { return directory_fd_ >= 0; }

  // The entry of `key`, or nothing if there is none that is whole, ours, and of that key.
  std::optional<CacheEntry> read(const std::string& key) const;
  // The last written of those whose key starts with `prefix`.
  std::optional<CacheEntry> read_newest(const std::string& prefix) const;

  // Then removes the least recently used entries beyond the limit, and temporaries of writers that
  // were killed.
  void write(const std::string& key, const CacheEntry& entry) const;

 private:
  void clean() const;
  bool write_file(const std::string& name, std::string_view bytes) const;

  std::filesystem::path directory_;
  Bytes limit_;
  int directory_fd_ = -1;
};

// The bytes of all entries in a directory; 0 where there is none.
Bytes cache_size(const std::filesystem::path& directory);

// One line on stderr; only the first of a process is printed.
void warn_about_cache(const std::string& text);
// Off: they are not printed, as in a program that uses Ridgeline as a library. On unless set.
void set_cache_warnings(bool on);

}  // namespace ridgeline
