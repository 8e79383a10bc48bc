#include "base/printable.h"

#include <fmt/format.h>

namespace ridgeline {
namespace {

std::string escaped(char c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (c >= 0x20 && c < 0x7f) return std::string(1, c);
  return fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
}

}  // namespace

std::string printable(std::string_view text, size_t max_length) {
  constexpr std::string_view kEllipsis = "...";
  std::string out;
  size_t last_cut = 0;  // longest prefix of whole escapes that leaves room for the ellipsis
  for (const char c : text) {
    out += escaped(c);
    if (out.size() > max_length) return out.substr(0, last_cut).append(kEllipsis);
    if (out.size() + kEllipsis.size() <= max_length) last_cut = out.size();
  }
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace ridgeline
