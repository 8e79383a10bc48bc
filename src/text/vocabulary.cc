#include "text/vocabulary.h"

#include <fmt/format.h>

#include "base/damaged_file.h"
#include "base/printable.h"
#include "text/utf8.h"

namespace ridgeline {

void Vocabulary::check() const {
  for (size_t id = 0; id < pieces.size(); ++id) {
    const std::string& text = pieces[id].text;
    if (text.empty() || !is_valid_utf8(text))
      throw damaged_file(fmt::format("has '{}' as piece {}, expected UTF-8 that is not empty",
                                     printable(text, 40), id));
  }
}

std::optional<int32_t> Vocabulary::find(std::string_view text) const {
  for (size_t id = 0; id < pieces.size(); ++id)
    if (pieces[id].text == text) return static_cast<int32_t>(id);
  return std::nullopt;
}

std::optional<uint8_t> byte_of(std::string_view piece) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  const size_t high = kDigits.find(piece[3]), low = kDigits.find(piece[4]);
  if (high == kDigits.npos || low == kDigits.npos) return std::nullopt;
  return static_cast<uint8_t>(16 * high + low);
}

std::array<int32_t, 256> Vocabulary::byte_ids() const {
  constexpr int32_t kNone = -1;
  std::array<int32_t, 256> ids;
  ids.fill(kNone);
  for (size_t id = 0; id < pieces.size(); ++id)
    if (pieces[id].kind == PieceKind::byte)
      if (const auto byte = byte_of(pieces[id].text)) ids[*byte] = static_cast<int32_t>(id);
  for (size_t byte = 0; byte < ids.size(); ++byte)
    if (ids[byte] == kNone)
      throw damaged_file(fmt::format("falls back to bytes but has no piece '<0x{:02X}>'", byte));
  return ids;
}

}  // namespace ridgeline
