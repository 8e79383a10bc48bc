// New files and folders under names that nobody can foresee, so that nobody can put a link in their
// way.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file_io.h"

namespace ridgeline {

struct NewFile {
  FileDescriptor file = FileDescriptor();  // for writing; below 0: see error
  std::string name = {};
  int error = 0;  // an errno
};

// A file that was not there before, in an open folder (or AT_FDCWD). `prefix` may have folders in
// it; random digits follow. Never follows a link, never takes a file that exists.
NewFile create_new_file(int folder, std::string_view prefix, mode_t mode);

// A folder in $TMPDIR (else /tmp) that only this user can enter, removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();  // throws an environment error
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ridgeline
