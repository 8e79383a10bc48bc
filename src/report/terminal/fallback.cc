#include "report/terminal/fallback.h"

namespace ridgeline {
namespace {

constexpr const char* kReason = "ran_eagerly_because";

// Searches nested objects, too: studies with several scenarios have metrics for each.
std::string reason_in(const Json& metrics) {
  if (const Json* found = metrics.find_key(kReason); found && found->is_string())
    return found->text();
  for (const auto& [name, part] : metrics.items())
    if (const std::string reason = reason_in(part); !reason.empty()) return reason;
  return {};
}

}  // namespace

std::string ran_eagerly(const Record& record) {
  std::string reason = reason_in(record.metrics.value_or(Json::object()));
  if (reason.empty()) return {};
  reason.erase(reason.find_last_not_of("\n ") + 1);
  const size_t line_end = reason.find('\n');  // the next step follows
  if (line_end != reason.npos)
    reason.replace(line_end, reason.find_first_not_of("\n ", line_end) - line_end, "; ");
  return "ran eagerly: " + reason;
}

}  // namespace ridgeline
