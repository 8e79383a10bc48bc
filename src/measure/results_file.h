// Writes a results file of JSON lines, each flushed to the disk before the next measurement starts.
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

  // Opens the file, creating parent directories, and locks it. Use::append repairs a last line that
  // a killed run left incomplete. Throws a usage error if the path cannot be written, if another
  // run holds the lock, or if the last line of a file to append to is not a record.
  explicit ResultsFile(std::filesystem::path path, Use use = Use::append);

  // A description of the repair on opening; nullopt if none was needed.
  const std::optional<std::string>& repair() const { return repair_; }

  // Writes the record and flushes it to the disk. On failure (a full disk), truncates the partial
  // line and throws an environment error; earlier records are safe.
  void append(const Record& record);

 private:
  void mend_last_line();

  std::filesystem::path path_;
  FileDescriptor file_;
  std::optional<std::string> repair_;
};

}  // namespace ridgeline
