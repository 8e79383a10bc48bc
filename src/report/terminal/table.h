// A table of text, and its three formats: aligned for a terminal, Markdown, CSV.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

struct Table {
  std::string title = {};
  std::vector<std::string> columns = {};
  std::vector<std::vector<std::string>> rows = {};  // each as long as `columns`
  // Columns that a narrow screen may leave out, the least important first.
  std::vector<std::string> spare = {};
  // Those of `spare` that tell rows apart where their values differ: then they are left out last.
  std::vector<std::string> axes = {};
};

bool has_column(const Table& table, std::string_view name);

struct TextOptions {
  size_t width = 0;           // of a line; 0: unlimited
  std::string whole_in = {};  // the file that has the columns left out: "results/gemm.csv"
  bool colour = false;        // for statuses and verdicts
};

// Returns ASCII text that ends in a newline; other characters are escaped. Columns of numbers (and
// of single words among them, such as OOM) are right-aligned.
//
// A table wider than `width` does not wrap: long cells, such as reasons, move to numbered lines
// below it; then spare columns are left out, and a line names them.
std::string to_text(const Table& table, const TextOptions& options = {});
// The same for stdout, with its width, and in colour if it is a terminal that shows colour.
std::string to_terminal(const Table& table, const std::filesystem::path& whole_in = {});

// Returns COLUMNS if that is a number, else the width of the terminal, else kWidthElsewhere.
size_t terminal_width(int descriptor);
inline constexpr size_t kWidthElsewhere = 120;  // where the output is a file or a pipe

// Breaks a sentence between words into lines of at most `width` characters; 0: one line. Lines
// after the first are indented.
std::vector<std::string> wrapped(const std::string& text, size_t width);

// Returns a pipe table below the title; characters special to Markdown or HTML are escaped.
std::string to_markdown(const Table& table);

// Escapes characters special to Markdown or HTML, for a paragraph or a cell.
std::string markdown_text(std::string_view text);

// Quotes as RFC 4180 does, ends lines with \n as pandas does, and writes no title. Control
// characters other than tab and line ends are escaped as \xNN, as CSV readers may reject them.
std::string to_csv(const Table& table);

enum class OutputFormat { csv, markdown, jsonl };

// Returns the format of an extension (.csv, .md, .jsonl). Throws a usage error for any other.
OutputFormat output_format(const std::filesystem::path& path);

// Writes CSV or Markdown by the extension, atomically. JSONL holds records, not tables: it is an
// internal error here.
void write_table(const std::filesystem::path& path, const Table& table);

}  // namespace ridgeline
