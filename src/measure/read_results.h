// Reads a results file of JSON lines, whatever is in it: good records, and a list of what was not
// good.
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
  std::string reason;       // in words, printable, bounded
};

struct ReadResult {
  std::vector<Record> records;
  std::vector<LineProblem> problems;
};

inline constexpr size_t kMaxLineBytes = size_t{4} << 20;

// Throws a usage error if the file cannot be read; never because of what it contains. Blank lines
// are passed over. A last line without a newline counts if it is a whole record.
ReadResult read_results(const std::filesystem::path& path);

// One line without its newline: the record, or what is wrong with it (line_number is left at 0).
struct ParsedLine {
  std::optional<Record> record;
  LineProblem problem;
};
ParsedLine parse_line(std::string_view line);

}  // namespace ridgeline
