// Files on a disk that may be full: owned descriptors, whole writes, atomic replacement.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace ridgeline {

// Closes its descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return fd_; }

 private:
  int fd_;
};

// Opens with close-on-exec. Throws a usage error for a path that cannot be used, an environment
// error where the system is at fault; `purpose` is the verb of the message ("write").
FileDescriptor open_file(const std::filesystem::path& path, int flags, std::string_view purpose);

// All of a regular file. Throws a usage error for what is none, or has more than `most_bytes`.
std::string read_file(const std::filesystem::path& path, size_t most_bytes);

// Writes all of `text` and returns 0, or the errno that stopped it; a part may have been written.
// A file size limit (ulimit -f) is reported like a full disk, and a pipe without a reader as EPIPE;
// neither kills the process.
int write_all(int fd, std::string_view text);

// Flushes to the disk; 0 or an errno. Pipes and devices that cannot be flushed count as flushed.
int sync_data(int fd);

// "No space left on device".
std::string errno_text(int error);

void create_parent_directories(const std::filesystem::path& path);

// A reader sees the old content or the new, never a part: a temporary beside it, then a rename.
// Creates parent directories. Existing devices and pipes are written to directly.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);
// The same of content that comes in pieces: `content` hands each to the function it is given. What
// it throws leaves the file as it was.
using Append = std::function<void(std::string_view)>;
void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(const Append&)>& content);

// Throws what would keep a file that the user named from being written, and changes nothing, so
// that it can be asked long before there is something to write. Of folders that are not there, the
// last one may be missing; more of them are more likely a slip than a wish. Gives what keeps a pipe
// open: its reader would take the first close for the end.
[[nodiscard]] FileDescriptor check_writable(const std::filesystem::path& path);

// Whether both paths lead to one file, through links as well; it need not exist yet.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace ridgeline
