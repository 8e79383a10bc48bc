#include "measure/record.h"

#include <ctime>

#include "base/enum_names.h"
#include "base/error.h"

namespace ridgeline {
namespace {

constexpr EnumNames<Status, Status::skipped> kStatusNames("ok", "oom", "unsupported", "wrong",
                                                          "invalid", "skipped");
constexpr EnumNames<Status, Status::skipped> kStatusCsvWords("success", "OOM", "unsupported",
                                                             "wrong", "invalid", "skipped");

}  // namespace

std::string_view status_name(Status status) {
  return kStatusNames[status];
}

std::string_view status_csv_word(Status status) {
  return kStatusCsvWords[status];
}

std::optional<Status> parse_status(std::string_view word) {
  const std::optional<Status> status = kStatusNames.find(word);
  return status ? status : kStatusCsvWords.find(word);
}

std::optional<Status> status_of(const Error& error) {
  if (error.kind() == ErrorKind::out_of_memory) return Status::oom;
  if (error.kind() == ErrorKind::unsupported) return Status::unsupported;
  return std::nullopt;
}

const Series* Record::find_series(std::string_view name) const {
  for (const Series& candidate : series)
    if (candidate.name == name) return &candidate;
  return nullptr;
}

BuildFacts version_and_compiler() {
#ifdef __clang__
  const std::string compiler = __VERSION__;  // "Debian Clang 14.0.6"
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
  return {.version = RIDGELINE_VERSION,
          .compiler = compiler,
          .build_type = {},
          .flags = {},
          .git_commit = {}};
}

Record::Record() = default;
Record::Record(const Record& other) = default;
Record::Record(Record&& other) noexcept = default;
Record& Record::operator=(const Record& other) = default;
Record& Record::operator=(Record&& other) noexcept = default;
Record::~Record() = default;
bool Record::operator==(const Record& other) const = default;

void fail_row(Record& record, const Error& error, const std::string& place) {
  const std::optional<Status> status = status_of(error);
  if (!status) throw error.at(place);
  record.status = *status;
  record.error = error.message();
}

bool was_tried(const Record& record) {
  return !record.error.ends_with(kNotTried);
}

std::string workload_key(const Record& record) {
  // Sorted, so that the key does not depend on the order in which members were written.
  return Json::array({record.study, record.implementation, record.device, record.workload.sorted(),
                      record.settings.sorted()})
      .dump();
}

std::string utc_text(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::string text(sizeof "2026-01-31T12:34:56Z", '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
  return text;
}

std::string utc_now() {
  return utc_text(std::time(nullptr));
}

}  // namespace ridgeline
