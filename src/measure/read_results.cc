#include "measure/read_results.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/file_io.h"
#include "base/printable.h"
#include "measure/record_json.h"

namespace ridgeline {
namespace {

LineProblem too_long() {
  return {0, fmt::format("longer than {}", to_string(Bytes{kMaxLineBytes}))};
}

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

// Splits chunks of the file into lines, and skips lines that are too long without buffering them.
class LineCollector {
 public:
  explicit LineCollector(ReadResult& result) : result_(result) {}

  void add(std::string_view chunk) {
    while (!chunk.empty()) {
      const size_t end = chunk.find('\n');
      keep(chunk.substr(0, end));
      if (end == std::string_view::npos) return;
      finish_line(true);
      chunk.remove_prefix(end + 1);
    }
  }

  void finish_line(bool has_newline) {
    ++line_number_;
    if (overflow_) {
      report(too_long());
    } else if (!blank(line_)) {
      ParsedLine parsed = parse_line(line_);
      if (parsed.record)
        result_.records.push_back(std::move(*parsed.record));
      else if (!has_newline)
        report({0, fmt::format("cut off after {} bytes", line_.size())});
      else
        report(std::move(parsed.problem));
    }
    line_.clear();
    overflow_ = false;
  }

 private:
  void keep(std::string_view part) {
    overflow_ = overflow_ || line_.size() + part.size() > kMaxLineBytes;
    if (overflow_)
      line_.clear();
    else
      line_.append(part);
  }

  void report(LineProblem problem) {
    problem.line_number = line_number_;
    result_.problems.push_back(std::move(problem));
  }

  ReadResult& result_;
  std::string line_;
  bool overflow_ = false;
  int64_t line_number_ = 0;
};

}  // namespace

ParsedLine parse_line(std::string_view line) {
  if (line.size() > kMaxLineBytes) return {std::nullopt, too_long()};
  try {
    const Json json = Json::parse(line);
    try {
      return {record_from_json(json), {}};
    } catch (const Error& error) {
      return {std::nullopt, {0, error.message()}};
    }
  } catch (const JsonError& error) {
    return {std::nullopt,
            {0, line.starts_with('{') || line.starts_with('[')
                    ? std::string("it ") + error.what()
                    : "not JSON, of which records are one object a line: " + printable(line, 40)}};
  }
}

ReadResult read_results(const std::filesystem::path& path) {
  const FileDescriptor file = open_file(path, O_RDONLY | O_NONBLOCK, "read");
  struct stat facts = {};
  if (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    throw Error(ErrorKind::usage,
                fmt::format("cannot read '{}': not a regular file", path.string()),
                "give the path of a results file (.jsonl)");
  ReadResult result;
  LineCollector lines(result);
  std::string chunk(size_t{1} << 18, '\0');
  while (true) {
    const ssize_t got = read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw Error(ErrorKind::environment,
                  fmt::format("cannot read '{}': {}", path.string(), errno_text(errno)));
    if (got == 0) break;
    lines.add(std::string_view(chunk.data(), static_cast<size_t>(got)));
  }
  lines.finish_line(false);
  return result;
}

}  // namespace ridgeline
