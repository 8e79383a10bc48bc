#include "report/terminal/colour.h"

#include <unistd.h>

#include "base/environment.h"

namespace ridgeline {
namespace {

struct Word {
  std::string_view word;
  Tone tone;
};
// Statuses of rows and verdicts of comparisons, as tables show them.
constexpr Word kWords[] = {
    {"OOM", Tone::caution},     {"oom", Tone::caution},     {"wrong", Tone::bad},
    {"invalid", Tone::bad},     {"FASTER", Tone::good},     {"SLOWER", Tone::bad},
    {"UNCLEAR", Tone::caution}, {"FAILED", Tone::bad},      {"unsupported", Tone::faint},
    {"skipped", Tone::faint},   {"missing", Tone::caution},
};

const char* start_of(Tone tone) {
  switch (tone) {
    case Tone::good:
      return "\033[32m";
    case Tone::bad:
      return "\033[31m";
    case Tone::caution:
      return "\033[33m";
    case Tone::faint:
      return "\033[2m";
    case Tone::plain:
      break;
  }
  return "";
}

}  // namespace

bool shows_colour(std::FILE* stream) {
  const std::string terminal = environment("TERM");
  if (!environment("NO_COLOR").empty() || terminal.empty() || terminal == "dumb") return false;
  return isatty(fileno(stream)) == 1;
}

Tone tone_of(std::string_view word) {
  for (const Word& known : kWords)
    if (known.word == word) return known.tone;
  return Tone::plain;
}

std::string painted(Tone tone, std::string_view text) {
  if (tone == Tone::plain) return std::string(text);
  return start_of(tone) + std::string(text) + "\033[0m";
}

}  // namespace ridgeline
