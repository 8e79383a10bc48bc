#include "report/terminal/records_json.h"

#include "measure/record_json.h"

namespace ridgeline {

std::string records_json(std::span<const Record> records) {
  Json all = Json::array();
  for (const Record& record : records) all.push_back(to_json(record));
  return all.dump(1) + "\n";
}

}  // namespace ridgeline
