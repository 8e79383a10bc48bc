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

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr int kSystemAtFault[] = {ENOSPC, EDQUOT, EIO, EMFILE, ENFILE, ENOMEM};

ErrorKind kind_of(int error) {
  const bool system = std::find(std::begin(kSystemAtFault), std::end(kSystemAtFault), error) !=
                      std::end(kSystemAtFault);
  return system ? ErrorKind::environment : ErrorKind::usage;
}

// A write beyond `ulimit -f` raises SIGXFSZ in the writing thread, which would end the process.
// Blocked there and taken back, it is EFBIG and no more, whatever other threads do meanwhile.
class BlockFileSizeSignal {
 public:
  BlockFileSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~BlockFileSizeSignal() {
    const timespec now = {};
    while (sigtimedwait(&signal_, nullptr, &now) == SIGXFSZ) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BlockFileSizeSignal(const BlockFileSizeSignal&) = delete;
  BlockFileSizeSignal& operator=(const BlockFileSizeSignal&) = delete;

 private:
  sigset_t signal_, before_;
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

// What stands at a path that shall be written.
struct Target {
  explicit Target(const fs::path& path) {
    struct stat existing = {};
    exists = stat(path.c_str(), &existing) == 0;
    mode = existing.st_mode;
    if (S_ISDIR(mode)) throw cannot_open("write", path, EISDIR);
    if (exists && access(path.c_str(), W_OK) != 0) throw cannot_open("write", path, errno);
    // Through links, so that the file they name is replaced and not the link.
    place = S_ISREG(mode) ? fs::canonical(path) : path;
  }

  bool is_special() const { return exists && !S_ISREG(mode); }

  bool exists = false;
  mode_t mode = 0;
  fs::path place;
};

// A new file beside `place`; gone with this unless it was renamed. Errors name `path`, which it is
// for.
class Temporary {
 public:
  Temporary(const fs::path& place, const fs::path& path)
      : path_(place.string() + fmt::format(".{}.tmp", getpid())),
        file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (file_.get() < 0) throw cannot_open("write", path, errno);
  }
  ~Temporary() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  int get() const { return file_.get(); }
  int rename_to(const fs::path& path) {
    if (rename(path_.c_str(), path.c_str()) != 0) return errno;
    path_.clear();
    return 0;
  }

 private:
  fs::path path_;
  FileDescriptor file_;
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

int write_all(int fd, std::string_view text) {
  const BlockFileSizeSignal guard;
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
  const Target target(path);
  if (target.is_special()) {
    write_and_sync(path, open_file(path, O_WRONLY, "write").get(), content);
    return;
  }
  create_parent_directories(path);
  Temporary temporary(target.place, path);
  if (target.exists) fchmod(temporary.get(), target.mode & 07777);
  write_and_sync(path, temporary.get(), content);
  if (const int error = temporary.rename_to(target.place)) throw cannot_write(path, error);
}

void check_writable(const fs::path& path) {
  const Target target(path);
  if (target.is_special()) return;
  // Of directories that are not there yet, the first one stands for all.
  fs::path place = target.place;
  std::error_code missing;
  while (place.has_parent_path() && !fs::exists(place.parent_path(), missing))
    place = place.parent_path();
  const Temporary probe(place, path);
}

}  // namespace ridgeline
