// A table of text and its three shapes: aligned for a terminal, Markdown, CSV.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

struct Table {
  std::string title = {};
  std::vector<std::string> columns = {};
  std::vector<std::vector<std::string>> rows = {};  // each as long as `columns`
};

// What becomes of cells of more than 60 characters, such as reasons: on a screen their lines would
// wrap, so that they stand below the table, numbered.
enum class LongCells { whole, below };

// Plain ASCII; columns of numbers (and single words among them, such as OOM) are aligned right;
// other characters are escaped. Ends in a newline.
std::string to_text(const Table& table, LongCells long_cells = LongCells::whole);
// The same for stdout: statuses and verdicts in colour if that shows any, and long cells below the
// table if that is a terminal.
std::string to_terminal(const Table& table);

// A pipe table below the title; whatever Markdown or HTML would act upon is escaped.
std::string to_markdown(const Table& table);

// Text for a Markdown paragraph or cell: what Markdown or HTML would act upon is escaped.
std::string markdown_text(std::string_view text);

// RFC 4180 quoting, lines ended by \n as pandas writes them, no title. Control characters other
// than tab and line ends, which no CSV reader is bound to accept, are escaped as \xNN.
std::string to_csv(const Table& table);

enum class OutputFormat { csv, markdown, jsonl };

// By the ending: .csv, .md, .jsonl. Throws a usage error that names the three for any other.
OutputFormat output_format(const std::filesystem::path& path);

// Writes CSV or Markdown by the ending, so that a reader sees the old file or the new one. JSONL
// holds records, not tables: asking for it here is an internal error.
void write_table(const std::filesystem::path& path, const Table& table);

}  // namespace ridgeline
