#include "base/file_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/temporary.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr int kSystemAtFault[] = {ENOSPC, EDQUOT, EIO, EMFILE, ENFILE, ENOMEM};

ErrorKind kind_of(int error) {
  const bool system = std::find(std::begin(kSystemAtFault), std::end(kSystemAtFault), error) !=
                      std::end(kSystemAtFault);
  return system ? ErrorKind::environment : ErrorKind::usage;
}

// A write beyond `ulimit -f` raises SIGXFSZ in the writing thread, one to a pipe without a reader
// SIGPIPE; either would end the process. This blocks both in the thread and consumes pending ones,
// so that writes only fail with EFBIG or EPIPE, independently of other threads.
class BlockWriteSignals {
 public:
  BlockWriteSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGXFSZ);
    sigaddset(&signals_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~BlockWriteSignals() {
    const timespec now = {};
    while (sigtimedwait(&signals_, nullptr, &now) > 0) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BlockWriteSignals(const BlockWriteSignals&) = delete;
  BlockWriteSignals& operator=(const BlockWriteSignals&) = delete;

 private:
  sigset_t signals_, before_;
};

Error cannot_write(const fs::path& path, int error) {
  return Error(ErrorKind::environment,
               fmt::format("cannot write '{}': {}", path.string(), errno_text(error)),
               "free some space or choose another place");
}

Error cannot_open(std::string_view purpose, const fs::path& path, int error) {
  return Error(kind_of(error),
               fmt::format("cannot {} '{}': {}", purpose, path.string(), errno_text(error)));
}

void write_and_sync(const fs::path& path, int fd,
                    const std::function<void(const Append&)>& content) {
  const auto check = [&](int error) {
    if (error) throw cannot_write(path, error);
  };
  content([&](std::string_view piece) { check(write_all(fd, piece)); });
  check(sync_data(fd));
}

// The file that a path to be written refers to.
struct WriteTarget {
  explicit WriteTarget(const fs::path& path) : place(path) {
    struct stat existing = {};
    exists = stat(path.c_str(), &existing) == 0;
    if (!exists && errno != ENOENT) throw cannot_open("write", path, errno);
    std::error_code no_link;
    if (const fs::path named = fs::read_symlink(path, no_link); !exists && !no_link)
      throw Error(ErrorKind::usage,
                  fmt::format("cannot write '{}': it is a link to '{}', which is not there",
                              path.string(), named.string()),
                  "remove the link, or create what it names");
    mode = existing.st_mode;
    if (S_ISDIR(mode)) throw cannot_open("write", path, EISDIR);
    if (exists && access(path.c_str(), W_OK) != 0) throw cannot_open("write", path, errno);
    // Follow links, so that the rename replaces the file and not the link.
    if (S_ISREG(mode)) place = fs::canonical(path);
  }

  bool is_special() const { return exists && !S_ISREG(mode); }

  bool exists = false;
  mode_t mode = 0;
  fs::path place;
};

// Opens a device or pipe; refuses a pipe without a reader, on which opening would block.
FileDescriptor open_special(const fs::path& path, const WriteTarget& target) {
  FileDescriptor file(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0 && errno == ENXIO && S_ISFIFO(target.mode))
    throw Error(ErrorKind::usage,
                fmt::format("cannot write '{}': nobody reads from this pipe", path.string()),
                "start its reader first");
  if (file.get() < 0) throw cannot_open("write", path, errno);
  fcntl(file.get(), F_SETFL, O_WRONLY);  // writes block until a slow reader catches up
  return file;
}

// A new file in a folder, which the destructor removes unless it was renamed. Errors name `path`,
// the final file.
class Temporary {
 public:
  Temporary(const fs::path& folder, const fs::path& path)
      : made_(create_new_file(AT_FDCWD, (folder / ".ridgeline-").string(), 0666)), path_(path) {
    if (made_.error) throw cannot_open("write", path, made_.error);
  }
  ~Temporary() {
    if (!made_.name.empty()) unlink(made_.name.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  int get() const { return made_.file.get(); }
  void rename_to(const fs::path& place) {
    if (rename(made_.name.c_str(), place.c_str()) != 0) throw cannot_write(path_, errno);
    made_.name.clear();
  }

 private:
  NewFile made_;
  fs::path path_;
};

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

FileDescriptor open_file(const fs::path& path, int flags, std::string_view purpose) {
  FileDescriptor file(open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (file.get() < 0) throw cannot_open(purpose, path, errno);
  return file;
}

std::string read_file(const fs::path& path, int64_t most) {
  // O_NONBLOCK, so that opening a pipe does not wait; it is refused below.
  const FileDescriptor file = open_file(path, O_RDONLY | O_NONBLOCK, "read");
  struct stat facts = {};
  if (fstat(file.get(), &facts) != 0) throw cannot_open("read", path, errno);
  if (!S_ISREG(facts.st_mode))
    throw Error(ErrorKind::usage, fmt::format("'{}' is no regular file", path.string()));
  const auto size = static_cast<size_t>(facts.st_size);
  if (facts.st_size > most)
    throw Error(ErrorKind::usage,
                fmt::format("'{}' has {} bytes, expected at most {}", path.string(), size, most));
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = read(file.get(), text.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw cannot_open("read", path, errno);
    if (got == 0) break;  // truncated while being read
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

int write_all(int fd, std::string_view text) {
  const BlockWriteSignals guard;
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int sync_data(int fd) {
  if (fdatasync(fd) == 0 || errno == EINVAL || errno == EROFS) return 0;
  return errno;
}

std::string errno_text(int error) {
  return std::generic_category().message(error);
}

void create_parent_directories(const fs::path& path) {
  if (!path.has_parent_path()) return;
  std::error_code problem;
  fs::create_directories(path.parent_path(), problem);
  if (problem)
    throw Error(kind_of(problem.value()),
                fmt::format("cannot create the directory '{}': {}", path.parent_path().string(),
                            problem.message()));
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, [&](const Append& append) { append(text); });
}

void write_file_atomically(const fs::path& path,
                           const std::function<void(const Append&)>& content) {
  const WriteTarget target(path);
  if (target.is_special()) {
    write_and_sync(path, open_special(path, target).get(), content);
    return;
  }
  create_parent_directories(path);
  Temporary temporary(target.place.parent_path(), path);
  if (target.exists) fchmod(temporary.get(), target.mode & 07777);
  write_and_sync(path, temporary.get(), content);
  temporary.rename_to(target.place);
}

FileDescriptor check_writable(const fs::path& path) {
  const WriteTarget target(path);
  if (target.is_special())
    return S_ISFIFO(target.mode) ? open_special(path, target) : FileDescriptor();
  std::error_code missing;
  fs::path folder = target.place.parent_path();
  if (!folder.empty() && !fs::exists(folder, missing)) {
    const fs::path above = folder.parent_path();
    if (!above.empty() && !fs::exists(above, missing))
      throw Error(ErrorKind::usage,
                  fmt::format("cannot write '{}': neither the folder '{}' nor '{}' is there",
                              path.string(), folder.string(), above.string()),
                  fmt::format("create it first: mkdir -p '{}'", folder.string()));
    folder = above;
  }
  // Writing a byte detects a full disk as well.
  const Temporary probe(folder, path);
  if (const int error = write_all(probe.get(), "?")) throw cannot_write(path, error);
  return FileDescriptor();
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code problem;
  if (fs::equivalent(a, b, problem)) return true;
  const fs::path real_a = fs::weakly_canonical(fs::absolute(a, problem), problem);
  return !problem && real_a == fs::weakly_canonical(fs::absolute(b, problem), problem) && !problem;
}

}  // namespace ridgeline
