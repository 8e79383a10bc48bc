// Reads the CSV that the program writes, as any script would.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ridgeline {

struct Csv {
  std::vector<std::string> columns;
  std::vector<std::map<std::string, std::string>> rows;
};

// Cells of RFC 4180: quotes around a cell, two quotes for one inside it.
inline std::vector<std::vector<std::string>> csv_cells(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> line;
  std::string cell;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      cell += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == ',' || c == '\n')) {
      line.push_back(std::exchange(cell, {}));
      if (c == '\n') lines.push_back(std::exchange(line, {}));
    } else {
      cell += c;
    }
  }
  return lines;
}

inline Csv parse_csv(const std::string& text) {
  Csv csv;
  for (const std::vector<std::string>& line : csv_cells(text)) {
    if (csv.columns.empty()) {
      csv.columns = line;
      continue;
    }
    auto& row = csv.rows.emplace_back();
    for (size_t i = 0; i < line.size() && i < csv.columns.size(); ++i)
      row[csv.columns[i]] = line[i];
  }
  return csv;
}

}  // namespace ridgeline
