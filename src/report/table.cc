#include "report/table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file_io.h"
#include "base/printable.h"
#include "report/colour.h"

namespace ridgeline {
namespace {

constexpr size_t kMaxCellWidth = 60;  // beside other cells on a screen
constexpr size_t kMaxCellText = 400;  // of anything: a file may say more

constexpr std::pair<std::string_view, OutputFormat> kEndings[] = {
    {".csv", OutputFormat::csv}, {".md", OutputFormat::markdown}, {".jsonl", OutputFormat::jsonl}};

// "1024", "-0.5", "1.85x", "20.0 MiB", "526 -> 111"; no sentence that begins with one.
bool looks_like_a_number(std::string_view cell) {
  if (cell.starts_with('-') || cell.starts_with('+')) cell.remove_prefix(1);
  return !cell.empty() && std::isdigit(static_cast<unsigned char>(cell.front())) &&
         std::count(cell.begin(), cell.end(), ' ') <= 2;
}

// A state in the place of a number: "OOM", "unsupported", "-".
bool looks_like_a_state(std::string_view cell) {
  return cell.size() <= 12 && cell.find(' ') == std::string_view::npos;
}

std::vector<bool> numeric_columns(const Table& table) {
  std::vector<bool> numeric;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const auto any = [&](auto holds) {
      return std::any_of(table.rows.begin(), table.rows.end(),
                         [&](const auto& row) { return holds(row.at(i)); });
    };
    numeric.push_back(any(looks_like_a_number) && !any([](std::string_view cell) {
                        return !looks_like_a_number(cell) && !looks_like_a_state(cell);
                      }));
  }
  return numeric;
}

std::string csv_cell(std::string_view cell) {
  std::string out;
  bool quote = false;
  for (const char c : cell) {
    quote = quote || c == ',' || c == '"' || c == '\n' || c == '\r';
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (c == '"')
      out += "\"\"";
    else if (control && c != '\t' && c != '\n' && c != '\r')
      out += printable(std::string_view(&c, 1));
    else
      out += c;
  }
  return quote ? '"' + out + '"' : out;
}

template <class MakeCell>
std::string joined(const std::vector<std::string>& cells, std::string_view separator,
                   MakeCell make) {
  std::string out;
  for (size_t i = 0; i < cells.size(); ++i)
    out.append(i ? separator : "").append(make(cells[i], i));
  return out;
}

}  // namespace

std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '|':
      case '\\':
      case '`':
      case '*':
      case '[':
      case ']':
        out += '\\';
        out += c;
        break;
      default:
        // Bytes of UTF-8 sequences pass; control characters would end the row.
        if (static_cast<unsigned char>(c) >= 0x80)
          out += c;
        else
          out += printable(std::string_view(&c, 1));
    }
  }
  return out;
}

namespace {

// Replaces long cells by the number under which they stand in what is returned.
std::string take_long_cells(Table& table) {
  std::vector<std::string> taken;
  for (auto& row : table.rows)
    for (std::string& cell : row) {
      if (printable(cell, kMaxCellText).size() <= kMaxCellWidth) continue;
      auto found = std::find(taken.begin(), taken.end(), cell);
      if (found == taken.end()) found = taken.insert(found, cell);
      cell = fmt::format("[{}]", found - taken.begin() + 1);
    }
  std::string text;
  for (size_t i = 0; i < taken.size(); ++i)
    text += fmt::format("[{}] {}\n", i + 1, printable(taken[i], kMaxCellText));
  return text;
}

std::string aligned(Table table, LongCells long_cells, bool colour) {
  const std::string below = long_cells == LongCells::below ? take_long_cells(table) : "";
  const auto shown = [](const std::string& cell) { return printable(cell, kMaxCellText); };
  const std::vector<bool> numeric = numeric_columns(table);
  std::vector<size_t> widths;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    widths.push_back(shown(table.columns[i]).size());
    for (const auto& row : table.rows) widths[i] = std::max(widths[i], shown(row.at(i)).size());
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = joined(cells, "  ", [&](const std::string& cell, size_t i) {
      const std::string padding(widths[i] - shown(cell).size(), ' ');
      const std::string word = colour ? painted(tone_of(cell), shown(cell)) : shown(cell);
      return numeric[i] ? padding + word : word + padding;
    });
    return text.erase(text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string out = table.title.empty() ? "" : printable(table.title) + "\n";
  out += line(table.columns);
  out += joined(table.columns, "  ",
                [&](const std::string&, size_t i) { return std::string(widths[i], '-'); });
  out += "\n";
  for (const auto& row : table.rows) out += line(row);
  return out + below;
}

}  // namespace

std::string to_text(const Table& table, LongCells long_cells) {
  return aligned(table, long_cells, false);
}

std::string to_terminal(const Table& table) {
  const bool on_screen = isatty(STDOUT_FILENO) == 1;
  return aligned(table, on_screen ? LongCells::below : LongCells::whole, shows_colour(stdout));
}

std::string to_markdown(const Table& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    const auto make = [](const std::string& cell, size_t) { return markdown_text(cell); };
    return "| " + joined(cells, " | ", make) + " |\n";
  };
  const std::vector<bool> numeric = numeric_columns(table);
  std::string out = table.title.empty() ? "" : "### " + markdown_text(table.title) + "\n\n";
  out += line(table.columns);
  out += "|" +
         joined(table.columns, "|",
                [&](const std::string&, size_t i) {
                  return std::string(numeric[i] ? "---:" : "---");
                }) +
         "|\n";
  for (const auto& row : table.rows) out += line(row);
  return out;
}

std::string to_csv(const Table& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    return joined(cells, ",", [](const std::string& cell, size_t) { return csv_cell(cell); }) +
           "\n";
  };
  std::string out = line(table.columns);
  for (const auto& row : table.rows) out += line(row);
  return out;
}

OutputFormat output_format(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  for (const auto& [candidate, format] : kEndings)
    if (ending == candidate) return format;
  const std::string met = ending.empty() ? "no ending" : fmt::format("the ending '{}'", ending);
  throw Error(ErrorKind::usage,
              fmt::format("'{}' has {}: expected .csv, .md or .jsonl", path.string(), met));
}

void write_table(const std::filesystem::path& path, const Table& table) {
  switch (output_format(path)) {
    case OutputFormat::csv:
      return write_file_atomically(path, to_csv(table));
    case OutputFormat::markdown:
      return write_file_atomically(path, to_markdown(table));
    case OutputFormat::jsonl:
      break;
  }
  throw Error(ErrorKind::internal, "a JSONL file holds records, not a table");
}

}  // namespace ridgeline
