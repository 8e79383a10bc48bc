#include "measure/record_text.h"

#include <fmt/format.h>

#include "base/printable.h"

namespace ridgeline {

std::string value_text(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return printable(value.is_string() ? value.get<std::string>() : value.dump_ascii(), 100);
}

std::string values_text(const Json& object) {
  constexpr size_t kLong = 180;  // bounds malformed files
  std::string text;
  for (const auto& [key, value] : object.items()) {
    if (text.size() > kLong) break;
    text += fmt::format(" {}={}", printable(key, 40), value_text(value));
  }
  return text;
}

std::string row_text(const Record& record) {
  return printable(fmt::format("{} {} {}", record.study, record.implementation, record.device),
                   100) +
         values_text(record.workload) + values_text(record.settings);
}

}  // namespace ridgeline
