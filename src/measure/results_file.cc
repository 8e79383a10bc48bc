#include "measure/results_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/error.h"
#include "measure/read_results.h"
#include "measure/record_json.h"

namespace ridgeline {
namespace {

// Every record starts like this; any other text at the end of a file must not be removed.
constexpr std::string_view kLineStart = R"({"schema":)";

std::string read_range(int fd, int64_t from, int64_t to) {
  std::string text(static_cast<size_t>(to - from), '\0');
  const ssize_t got = pread(fd, text.data(), text.size(), from);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

// Returns the offset after the last newline, or 0.
int64_t last_line_start(int fd, int64_t size) {
  constexpr int64_t kBlock = 1 << 16;
  for (int64_t end = size; end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - kBlock);
    const size_t newline = read_range(fd, begin, end).rfind('\n');
    if (newline != std::string::npos) return begin + static_cast<int64_t>(newline) + 1;
    end = begin;
  }
  return 0;
}

bool starts_like_a_record(std::string_view text) {
  const size_t length = std::min(text.size(), kLineStart.size());
  return text.substr(0, length) == kLineStart.substr(0, length);
}

int64_t size_if_regular(int fd) {
  struct stat facts = {};
  return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) ? facts.st_size : 0;
}

}  // namespace

ResultsFile::ResultsFile(std::filesystem::path path, Use use) : path_(std::move(path)) {
  create_parent_directories(path_);
  file_ = open_file(path_, O_RDWR | O_APPEND | O_CREAT, "write");
  struct stat facts = {};
  if (fstat(file_.get(), &facts) == 0 && S_ISFIFO(facts.st_mode))
    throw Error(ErrorKind::usage, fmt::format("cannot write '{}': it is a pipe", path_.string()),
                "remove it, or give another place for the results");
  if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw Error(ErrorKind::usage, fmt::format("another run is writing to '{}'", path_.string()),
                "wait for it, or give this run a file of its own");
  if (use == Use::append) mend_last_line();
}

void ResultsFile::mend_last_line() {
  const int64_t size = size_if_regular(file_.get());
  if (size == 0) return;
  const int64_t start = last_line_start(file_.get(), size);
  if (start == size) return;
  const int64_t length = size - start;
  const std::string line =
      read_range(file_.get(), start, std::min<int64_t>(size, start + int64_t{kMaxLineBytes} + 1));
  int error = 0;
  if (parse_line(line).record) {
    error = write_all(file_.get(), "\n");
    repair_ = fmt::format("'{}': the last record had no newline; added it", path_.string());
  } else if (starts_like_a_record(line)) {
    error = ftruncate(file_.get(), start) == 0 ? 0 : errno;
    repair_ = fmt::format("'{}': the last line was cut off after {} bytes; removed it",
                          path_.string(), length);
  } else {
    throw Error(ErrorKind::usage,
                fmt::format("'{}' ends in a line that is not a record: refusing to append to it",
                            path_.string()),
                "give another output file, or leave out --resume: the file then moves aside");
  }
  if (error)
    throw Error(ErrorKind::environment,
                fmt::format("cannot mend '{}': {}", path_.string(), errno_text(error)));
}

void ResultsFile::append(const Record& record) {
  const std::string line = to_line(record);
  if (line.size() > kMaxLineBytes)
    throw Error(ErrorKind::internal,
                fmt::format("a record of {}: no reader takes more than {}",
                            to_string(Bytes{static_cast<int64_t>(line.size())}),
                            to_string(Bytes{kMaxLineBytes})));
  const int64_t size_before = size_if_regular(file_.get());
  int error = write_all(file_.get(), line);
  if (!error) error = sync_data(file_.get());
  if (!error) return;
  const bool taken_back = ftruncate(file_.get(), size_before) == 0;
  throw Error(ErrorKind::environment,
              fmt::format("cannot write to '{}': {}; the records before this one are safe{}",
                          path_.string(), errno_text(error),
                          taken_back ? "" : ", a part of this one may follow them"),
              "free some space and run again with --resume");
}

}  // namespace ridgeline
