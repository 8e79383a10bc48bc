#include "cli/failures.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include "base/print.h"
#include "report/terminal/colour.h"
#include "studies/peers/implementations.h"

namespace ridgeline {

void say_failures(std::span<const Record> records, std::string_view own_entry) {
  const bool colour = shows_colour(stderr);
  std::set<std::string> said;
  for (const Record& record : records) {
    const bool of_others = find_peer(record.implementation) ||
                           find_model_peer(record.implementation) ||
                           record.implementation == own_entry;
    const std::string reason = fmt::format("{}: {}", record.implementation, record.error);
    if (record.status == Status::ok || !of_others || !said.insert(reason).second) continue;
    const std::string_view status = status_csv_word(record.status);
    say("{}: {}: {}", record.implementation,
        colour ? painted(tone_of(status), status) : std::string(status), record.error);
  }
}

}  // namespace ridgeline
