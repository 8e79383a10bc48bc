// Compiled kernels on disk, in a private directory. Failures there never break a run: what cannot
// be read or trusted counts as missing, what cannot be written is not cached, and one line per
// process reports it.
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

// Safe for concurrent use by several threads and processes.
class DiskCache {
 public:
  static constexpr Bytes kDefaultLimit = {512ll << 20};

  // Creates the directory, for its owner only. With an empty path nothing is cached.
  explicit DiskCache(const std::filesystem::path& directory, Bytes limit = kDefaultLimit);
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  // Whether the directory exists and belongs to this user alone.
  bool usable() const { return directory_fd_ >= 0; }

  // The entry of `key`, or none unless one is complete, owned by us, and of that key.
  std::optional<CacheEntry> read(const std::string& key) const;
  // The most recently written entry whose key starts with `prefix`.
  std::optional<CacheEntry> read_newest(const std::string& prefix) const;

  // Afterwards removes the least recently used entries beyond the limit, and temporary files of
  // killed writers.
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
// Off: warnings are not printed, as when Ridgeline is used as a library. On by default.
void set_cache_warnings(bool on);

}  // namespace ridgeline
