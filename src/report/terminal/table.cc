#include "report/terminal/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/environment.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/printable.h"
#include "report/terminal/colour.h"

namespace ridgeline {
namespace {

constexpr size_t kMaxCellWidth = 60;  // of a table that is too wide for the screen
constexpr size_t kCellWidthsOfNarrowScreens[] = {40, 25, 15};
constexpr size_t kMaxCellText = 400;  // of any table: a file may hold more

constexpr std::pair<std::string_view, OutputFormat> kEndings[] = {
    {".csv", OutputFormat::csv}, {".md", OutputFormat::markdown}, {".jsonl", OutputFormat::jsonl}};

// Matches "1024", "-0.5", "1.85x", "20.0 MiB", "526 -> 111", but no sentence that begins with one.
bool looks_like_a_number(std::string_view cell) {
  if (cell.starts_with('-') || cell.starts_with('+')) cell.remove_prefix(1);
  return !cell.empty() && std::isdigit(static_cast<unsigned char>(cell.front())) &&
         std::count(cell.begin(), cell.end(), ' ') <= 2;
}

// Matches a status in place of a number: "OOM", "unsupported", "-".
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
        // Escapes control characters, which would end the row; keeps bytes of UTF-8 sequences.
        if (static_cast<unsigned char>(c) >= 0x80)
          out += c;
        else
          out += printable(std::string_view(&c, 1));
    }
  }
  return out;
}

namespace {

constexpr std::string_view kGap = "  ";

std::string shown(const std::string& cell) {
  return printable(cell, kMaxCellText);
}

std::vector<size_t> widths_of(const Table& table) {
  std::vector<size_t> widths;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    widths.push_back(shown(table.columns[i]).size());
    for (const auto& row : table.rows) widths[i] = std::max(widths[i], shown(row.at(i)).size());
  }
  return widths;
}

bool fits(const Table& table, size_t width) {
  size_t taken = 0;
  for (const size_t each : widths_of(table)) taken += each + kGap.size();
  return width == 0 || taken <= width + kGap.size();
}

// Moves cells longer than `limit` and their column's name to `taken`, leaving numbers in brackets.
void take_long_cells(Table& table, size_t limit, std::vector<std::string>& taken) {
  for (auto& row : table.rows)
    for (size_t i = 0; i < row.size(); ++i) {
      std::string& cell = row[i];
      if (shown(cell).size() <= std::max(limit, table.columns.at(i).size())) continue;
      auto found = std::find(taken.begin(), taken.end(), cell);
      if (found == taken.end()) found = taken.insert(found, cell);
      cell = fmt::format("[{}]", found - taken.begin() + 1);
    }
}

Table without(Table table, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto found = std::find(table.columns.begin(), table.columns.end(), name);
    if (found == table.columns.end())
      throw Error(ErrorKind::internal,
                  fmt::format("'{}' is a spare column of '{}', which has no such column", name,
                              table.title));
    const auto at = found - table.columns.begin();
    table.columns.erase(found);
    for (auto& row : table.rows) row.erase(row.begin() + at);
  }
  return table;
}

// Whether rows have different values in this column.
bool differs(const Table& table, const std::string& name) {
  const auto at = std::ranges::find(table.columns, name) - table.columns.begin();
  return std::ranges::any_of(table.rows, [&](const std::vector<std::string>& row) {
    return row.at(at) != table.rows.front().at(at);
  });
}

// Spare columns, the least important first: those that tell rows apart are at the end.
std::vector<std::string> spare_columns(const Table& table) {
  std::vector<std::string> figures, axes;
  for (const std::string& name : table.spare)
    (std::ranges::count(table.axes, name) > 0 && differs(table, name) ? axes : figures)
        .push_back(name);
  figures.insert(figures.end(), axes.begin(), axes.end());
  return figures;
}

std::string folded(const std::string& text, size_t width) {
  return fmt::format("{}\n", fmt::join(wrapped(text, width), "\n"));
}

std::string left_out_line(const std::vector<std::string>& left_out, const TextOptions& options) {
  if (left_out.empty()) return {};
  const std::string where = options.whole_in.empty()
                                ? fmt::format("a width above {} shows them", options.width)
                                : fmt::format("{} has all figures", printable(options.whole_in));
  return folded(fmt::format("(Left out to fit {} columns: {}; {}.)", options.width,
                            fmt::join(left_out, ", "), where),
                options.width);
}

}  // namespace

bool has_column(const Table& table, std::string_view name) {
  return std::find(table.columns.begin(), table.columns.end(), name) != table.columns.end();
}

std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines = {""};
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (width > 0 && !lines.back().empty() && lines.back().size() + 1 + word.size() > width)
      lines.push_back(std::string(kGap) + word);
    else
      lines.back() += (at == 0 ? "" : " ") + word;
    at = end + 1;
  }
  return lines;
}

std::string to_text(const Table& whole, const TextOptions& options) {
  Table table = whole;
  std::vector<std::string> below, left_out;
  if (!fits(table, options.width)) take_long_cells(table, kMaxCellWidth, below);
  if (!fits(table, options.width)) {
    // Removes all spare columns, then restores those that fit, the most important first.
    left_out = spare_columns(whole);
    for (size_t i = left_out.size(); i-- > 0;) {
      std::vector<std::string> fewer = left_out;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (fits(without(table, fewer), options.width)) left_out = std::move(fewer);
    }
    table = without(table, left_out);
  }
  for (const size_t limit : kCellWidthsOfNarrowScreens)
    if (!fits(table, options.width)) take_long_cells(table, limit, below);

  const std::vector<bool> numeric = numeric_columns(table);
  const std::vector<size_t> widths = widths_of(table);
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = joined(cells, kGap, [&](const std::string& cell, size_t i) {
      const std::string padding(widths[i] - shown(cell).size(), ' ');
      const std::string word = options.colour ? painted(tone_of(cell), shown(cell)) : shown(cell);
      return numeric[i] ? padding + word : word + padding;
    });
    return text.erase(text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string out = table.title.empty() ? "" : folded(printable(table.title), options.width);
  out += line(table.columns);
  out += joined(table.columns, kGap,
                [&](const std::string&, size_t i) { return std::string(widths[i], '-'); });
  out += "\n";
  for (const auto& row : table.rows) out += line(row);
  for (size_t i = 0; i < below.size(); ++i)
    out += folded(fmt::format("[{}] {}", i + 1, shown(below[i])), options.width);
  return out + left_out_line(left_out, options);
}

size_t terminal_width(int descriptor) {
  constexpr size_t kLeast = 20, kMost = 10'000;
  const std::string columns = environment("COLUMNS");
  size_t given = 0;
  const auto [end, problem] =
      std::from_chars(columns.data(), columns.data() + columns.size(), given);
  if (problem == std::errc{} && end == columns.data() + columns.size() && given > 0)
    return std::clamp(given, kLeast, kMost);
  winsize size = {};
  if (isatty(descriptor) == 1 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::clamp<size_t>(size.ws_col, kLeast, kMost);
  return kWidthElsewhere;
}

std::string to_terminal(const Table& table, const std::filesystem::path& whole_in) {
  return to_text(table, {.width = terminal_width(STDOUT_FILENO),
                         .whole_in = whole_in.string(),
                         .colour = shows_colour(stdout)});
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
