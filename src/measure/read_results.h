// Reads a results file of JSON lines: its valid records, and a list of its invalid lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

struct LineProblem {
  int64_t line_number = 0;  // counted from 1
  std::string reason;       // printable, of bounded length
};

struct ReadResult {
  std::vector<Record> records;
  std::vector<LineProblem> problems;
};

inline constexpr size_t kMaxLineBytes = size_t{4} << 20;

// Throws an error if the file cannot be read, but never because of its content. Skips blank lines.
// A last line without a newline counts if it is a whole record.
ReadResult read_results(const std::filesystem::path& path);

// A record, or the problem of its line, with line_number 0.
struct ParsedLine {
  std::optional<Record> record;
  LineProblem problem;
};
ParsedLine parse_line(std::string_view line);  // without the newline

}  // namespace ridgeline
