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
  // Columns that a narrow screen may go without, those that are missed least first. All others are
  // always shown.
  std::vector<std::string> spare = {};
};

struct TextOptions {
  size_t width = 0;           // of a line; 0: as wide as it takes
  std::string whole_in = {};  // where columns that are left out can be read: "results/gemm.csv"
  bool colour = false;        // of statuses and verdicts
};

// Plain ASCII; columns of numbers (and single words among them, such as OOM) are aligned right;
// other characters are escaped. Ends in a newline.
//
// A table that is wider than the width never wraps: long cells, such as reasons, stand below it,
// numbered; then spare columns are left out, and a line says which.
std::string to_text(const Table& table, const TextOptions& options = {});
// The same for stdout, with its width, and in colour if it shows any.
std::string to_terminal(const Table& table, const std::filesystem::path& whole_in = {});

// COLUMNS, if that is a number; else the width of the terminal; else kWidthElsewhere.
size_t terminal_width(int descriptor);
inline constexpr size_t kWidthElsewhere = 120;  // where the output is a file or a pipe

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
