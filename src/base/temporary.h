// New files and folders with unpredictable names, so that nobody can place a link there in advance.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file_io.h"

namespace ridgeline {

struct NewFile {
  FileDescriptor file = FileDescriptor();  // for writing; negative: see error
  std::string name = {};
  int error = 0;  // an errno
};

// Creates a file in an open folder (or AT_FDCWD), named `prefix`, which may contain folders, and
// random digits. Never follows a link or reuses an existing file.
NewFile create_new_file(int folder, std::string_view prefix, mode_t mode);

// A folder in $TMPDIR (else /tmp) that only this user can enter; removed with its content.
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
