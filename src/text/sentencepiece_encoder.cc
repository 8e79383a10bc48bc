// Encodes text to the same ids as sentencepiece: its normalizer, its BPE, its byte fallback.
#include <unordered_map>
#include <utility>

#include "text/encoder.h"
#include "text/merge.h"
#include "text/piece_matcher.h"
#include "text/utf8.h"

namespace ridgeline {
namespace {

class SentencePieceEncoder : public Encoder {
 public:
  explicit SentencePieceEncoder(SentencePieceModel model) : model_(std::move(model)) {
    std::vector<PieceMatcher::Entry> user_defined;
    for (size_t i = 0; i < pieces().size(); ++i) {
      const Piece& piece = pieces()[i];
      const auto id = static_cast<int32_t>(i);
      if (piece.kind == PieceKind::unknown) unknown_ = id;
      if (piece.kind == PieceKind::user_defined) user_defined.push_back({piece.text, id});
      // Control pieces, byte pieces and the unknown piece are never matched in a text.
      if (piece.kind == PieceKind::normal || piece.kind == PieceKind::user_defined ||
          piece.kind == PieceKind::unused)
        ids_.emplace(piece.text, id);
    }
    user_defined_ = PieceMatcher(std::move(user_defined));
    if (model_.byte_fallback) bytes_ = model_.vocabulary.byte_ids();
  }

  const Vocabulary& vocabulary() const override { return model_.vocabulary; }

  std::vector<int32_t> encode(std::string_view text, SpecialPieces special) const override {
    const std::string normalized = normalize(text, special);
    const std::string_view all = normalized;
    std::vector<Symbol> symbols = split(all, special);
    SplitOfUnused split_of_unused;
    merge_symbols(symbols, [&](const Symbol& left, const Symbol& right) {
      const std::string_view both = all.substr(left.begin, left.length + right.length);
      const int32_t id = find(both, special);
      if (id == unknown_) return std::optional<PairMerge>();
      if (piece(id).kind == PieceKind::unused) split_of_unused[both] = left.length;
      return std::optional<PairMerge>({piece(id).score, id});
    });
    std::vector<int32_t> ids;
    bool was_unknown = false;
    for (const Symbol& symbol : symbols)
      add(all.substr(symbol.begin, symbol.length), special, split_of_unused, was_unknown, ids);
    return ids;
  }

 private:
  // By the text of an unused piece: bytes of the left part of the last pair that forms it.
  using SplitOfUnused = std::unordered_map<std::string_view, size_t>;

  const std::vector<Piece>& pieces() const { return model_.vocabulary.pieces; }
  const Piece& piece(int32_t id) const { return pieces()[static_cast<size_t>(id)]; }
  bool is_allowed(int32_t id, SpecialPieces special) const {
    return special == SpecialPieces::matched || !piece(id).special;
  }
  int32_t find(std::string_view text, SpecialPieces special) const {
    const auto found = ids_.find(text);
    return found == ids_.end() || !is_allowed(found->second, special) ? unknown_ : found->second;
  }
  size_t user_defined_at(std::string_view text, SpecialPieces special) const {
    return user_defined_.longest(text, [&](int32_t id) { return is_allowed(id, special); }).length;
  }

  // Copies user-defined pieces, but escapes their spaces like all others. One that contains a space
  // therefore does not match in the result, as in sentencepiece.
  std::string normalize(std::string_view text, SpecialPieces special) const {
    struct Part {
      std::string_view text;
      size_t bytes;  // of the input
    };
    const auto first_part = [&](std::string_view rest) -> Part {
      size_t length = user_defined_at(rest, special);
      if (length == 0) length = valid_character(rest);
      if (length == 0) return {kReplacementCharacter, 1};
      return {rest.substr(0, length), length};
    };
    const bool trims = model_.remove_extra_whitespaces;
    while (trims && !text.empty() && first_part(text).text == " ")
      text.remove_prefix(first_part(text).bytes);
    if (text.empty()) return {};
    const std::string_view space = model_.escape_whitespaces ? kSpaceSymbol : " ";
    std::string out;
    if (model_.add_dummy_prefix && !model_.whitespace_as_suffix) out += space;
    bool after_space = trims;
    while (!text.empty()) {
      auto [part, bytes] = first_part(text);
      while (after_space && part.starts_with(' ')) part.remove_prefix(1);
      for (const char byte : part)
        if (byte == ' ')
          out += space;
        else
          out += byte;
      if (!part.empty()) after_space = trims && part.ends_with(' ');
      text.remove_prefix(bytes);
    }
    while (trims && out.ends_with(space)) out.erase(out.size() - space.size());
    if (model_.add_dummy_prefix && model_.whitespace_as_suffix) out += space;
    return out;
  }

  // Splits text into user-defined pieces and the characters between them.
  std::vector<Symbol> split(std::string_view text, SpecialPieces special) const {
    std::vector<Symbol> symbols;
    for (size_t at = 0; at < text.size(); at += symbols.back().length) {
      const std::string_view rest = text.substr(at);
      const size_t user_defined = user_defined_at(rest, special);
      symbols.push_back({.begin = at,
                         .length = user_defined ? user_defined : valid_character(rest),
                         .frozen = user_defined > 0});
    }
    return symbols;
  }

  // Adds the ids of one symbol: its own, those of its parts if it is unused, or those of its bytes.
  void add(std::string_view symbol, SpecialPieces special, const SplitOfUnused& split_of_unused,
           bool& was_unknown, std::vector<int32_t>& ids) const {
    std::vector<std::string_view> parts = {symbol};
    while (!parts.empty()) {
      const std::string_view part = parts.back();
      parts.pop_back();
      const int32_t id = find(part, special);
      const auto unused = split_of_unused.find(part);
      if (piece(id).kind == PieceKind::unused && unused != split_of_unused.end()) {
        parts.push_back(part.substr(unused->second));
        parts.push_back(part.substr(0, unused->second));
        continue;
      }
      const bool is_unknown = id == unknown_;
      if (is_unknown && model_.byte_fallback)
        for (const char byte : part) ids.push_back(bytes_[static_cast<unsigned char>(byte)]);
      else if (!is_unknown || !was_unknown)  // adjacent unknown symbols share one id
        ids.push_back(id);
      was_unknown = is_unknown;
    }
  }

  SentencePieceModel model_;
  std::unordered_map<std::string_view, int32_t> ids_;
  PieceMatcher user_defined_;
  std::array<int32_t, 256> bytes_{};
  int32_t unknown_ = 0;
};

}  // namespace

std::unique_ptr<const Encoder> make_encoder(SentencePieceModel model) {
  return std::make_unique<SentencePieceEncoder>(std::move(model));
}

}  // namespace ridgeline
