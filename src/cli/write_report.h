// Makes a report of results files and writes it in the requested formats.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "report/page/document.h"

namespace ridgeline {

struct ReportRequest {
  std::vector<std::filesystem::path> results = {};  // files, or folders searched for .jsonl
  std::vector<std::filesystem::path> outputs = {};  // .html, .md, .svg, .png
  std::string figure = {};                          // for .svg and .png, only this one; empty: all
  std::filesystem::path base = {};                  // a results file to compare with; empty: none
  std::string baseline = {};  // or a saved baseline of the history in `results_dir`
  std::filesystem::path results_dir = "results";
  bool force = false;  // compare across machines and settings
};

struct WrittenReports {
  std::vector<std::filesystem::path> files = {};
  ReportDocument document = {};
};

// Reports lines that could not be read on stderr.
WrittenReports write_reports(const ReportRequest& request);

// Writes a document in the format of the file extension. Returns the files.
std::vector<std::filesystem::path> write_document(const ReportDocument& document,
                                                  const std::filesystem::path& output,
                                                  const std::string& figure = {});

// Throws a usage error for a file that no report can be written to; call it before measuring.
[[nodiscard]] FileDescriptor check_report_output(const std::filesystem::path& output);

}  // namespace ridgeline
