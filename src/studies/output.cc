#include "studies/output.h"

#include "measure/record_json.h"
#include "report/terminal/records_json.h"

namespace ridgeline {

void write_output(const OutputFlags& output, const std::vector<Record>& records,
                  const Table& table) {
  if (!output.json.empty()) write_file_atomically(output.json, records_json(records));
  if (output.table.empty()) return;
  if (output_format(output.table) != OutputFormat::jsonl) {
    write_table(output.table, table);
    return;
  }
  std::string lines;
  for (const Record& record : records) lines += to_line(record);
  write_file_atomically(output.table, lines);
}

std::vector<FileDescriptor> check_output(const OutputFlags& output) {
  if (!output.table.empty()) output_format(output.table);
  std::vector<FileDescriptor> held;
  for (const std::string& path : {output.table, output.json})
    if (!path.empty()) held.push_back(check_writable(path));
  return held;
}

}  // namespace ridgeline
