// The results file being written: JSON lines, each on the disk before the next measurement starts.
//
//   ResultsFile results("results/attention/attention.jsonl");
//   if (results.repair()) fmt::print(stderr, "{}\n", *results.repair());
//   results.append(record);
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/file_io.h"
#include "measure/record.h"

namespace ridgeline {

class ResultsFile {
 public:
  enum class Use { append, move };

  // Opens the file, creating parent directories, and locks out a second writer. To append, removes
  // the last line if it was cut off (a killed run). Throws a usage error for a path that cannot be
  // written, and for appending to a file that holds something else than records.
  explicit ResultsFile(std::filesystem::path path, Use use = Use::append);

  // What opening had to mend, in words; empty: nothing.
  const std::optional<std::string>& repair() const { return repair_; }

  // One write, then a flush to the disk. On failure (a full disk) takes back a partial line and
  // throws an environment error; the records before it are safe.
  void append(const Record& record);

 private:
  void mend_last_line();

  std::filesystem::path path_;
  FileDescriptor file_;
  std::optional<std::string> repair_;
};

}  // namespace ridgeline
