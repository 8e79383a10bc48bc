// File I/O that handles full disks: owned descriptors, complete writes, atomic replacement.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace ridgeline {

// Owns a descriptor.
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

// Opens with close-on-exec. Throws an environment error if the system is at fault (a full disk, too
// many files), else a usage error; `purpose` is the verb of the message ("write").
FileDescriptor open_file(const std::filesystem::path& path, int flags, std::string_view purpose);

// Returns the content of a regular file. Throws a usage error for a pipe or device, which might
// block, and for more than `most` bytes.
std::string read_file(const std::filesystem::path& path, int64_t most);

// Writes all of `text` and returns 0, or the errno that stopped it; a part may have been written.
// A file size limit (ulimit -f) is reported like a full disk, and a pipe without a reader as EPIPE;
// neither kills the process.
int write_all(int fd, std::string_view text);

// Flushes to the disk and returns 0 or an errno. Pipes and devices that cannot be flushed return 0.
int sync_data(int fd);

// "No space left on device".
std::string errno_text(int error);

void create_parent_directories(const std::filesystem::path& path);

// Writes a temporary file in the same folder and renames it, so that a reader sees the old content
// or the new. Creates parent directories. Writes to existing devices and pipes directly.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);
// The same for content in pieces: `content` passes each to its argument. If it throws, the file is
// unchanged.
using Append = std::function<void(std::string_view)>;
void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(const Append&)>& content);

// Throws the error that writing this file would cause, without changing anything, so that it is
// reported before a long run. The file's folder may be missing, but not that folder's parent: that
// is probably a typing error. For a pipe, returns a descriptor that keeps it open, as its reader
// would take the first close for the end.
[[nodiscard]] FileDescriptor check_writable(const std::filesystem::path& path);

// Whether both paths refer to the same file after following links; it need not exist yet.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace ridgeline
