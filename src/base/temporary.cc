#include "base/temporary.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace ridgeline {

namespace fs = std::filesystem;

NewFile create_new_file(int folder, std::string_view prefix, mode_t mode) {
  NewFile made;
  do {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) {
      made.error = errno;
      return made;
    }
    made.name = fmt::format("{}{:016x}", prefix, random);
    made.file = FileDescriptor(openat(folder, made.name.c_str(),
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    made.error = made.file.get() < 0 ? errno : 0;
  } while (made.error == EEXIST);
  return made;
}

TemporaryDirectory::TemporaryDirectory() {
  std::error_code missing;
  const fs::path parent = fs::temp_directory_path(missing);
  std::string pattern = (parent / "ridgeline-XXXXXX").string();
  if (missing || !mkdtemp(pattern.data()))
    throw Error(ErrorKind::environment,
                fmt::format("cannot make a folder for temporary files{}: {}",
                            missing ? "" : fmt::format(" in '{}'", parent.string()),
                            missing ? missing.message() : errno_text(errno)),
                "set TMPDIR to a folder that can be written to");
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace ridgeline
