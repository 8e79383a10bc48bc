// Encodes text as the library `tokenizers` does with a tokenizer.json: added tokens first, then
// merges in the order of their list.
#include <unordered_map>
#include <utility>

#include "text/encoder.h"
#include "text/merge.h"
#include "text/piece_matcher.h"
#include "text/utf8.h"

namespace ridgeline {
namespace {

class MergeListEncoder : public Encoder {
 public:
  explicit MergeListEncoder(MergeListModel model)
      : model_(std::move(model)), bytes_(model_.vocabulary.byte_ids()) {
    const std::vector<Piece>& pieces = model_.vocabulary.pieces;
    for (size_t id = 0; id < pieces.size(); ++id)
      if (valid_character(pieces[id].text) == pieces[id].text.size())
        characters_.emplace(pieces[id].text, static_cast<int32_t>(id));
    for (size_t rank = 0; rank < model_.merges.size(); ++rank) {
      const auto& [left, right, merged] = model_.merges[rank];
      merges_[pair_of(left, right)] = {-static_cast<double>(rank), merged};
    }
    std::vector<PieceMatcher::Entry> plain, normalized;
    for (MergeListModel::Added& added : model_.added) {
      if (added.normalized) added.text = escaped(added.text);
      (added.normalized ? normalized : plain).push_back({added.text, added.id});
    }
    in_text_ = PieceMatcher(std::move(plain));
    in_normalized_ = PieceMatcher(std::move(normalized));
  }

  const Vocabulary& vocabulary() const override { return model_.vocabulary; }

  std::vector<int32_t> encode(std::string_view text, SpecialPieces special) const override {
    const auto is_allowed = [&](int32_t id) {
      return special == SpecialPieces::matched ||
             !model_.vocabulary.pieces[static_cast<size_t>(id)].special;
    };
    std::vector<Symbol> symbols;
    std::string run;  // of text between added tokens
    const auto end_run = [&] {
      add_run(escaped(run), is_allowed, symbols);
      run.clear();
    };
    while (!text.empty()) {
      const PieceMatcher::Match added = in_text_.longest(text, is_allowed);
      if (added.length > 0) {
        end_run();
        symbols.push_back({.length = added.length, .id = added.id, .frozen = true});
        text.remove_prefix(added.length);
        continue;
      }
      const size_t length = valid_character(text);
      run += length > 0 ? text.substr(0, length) : kReplacementCharacter;
      text.remove_prefix(length > 0 ? length : 1);
    }
    end_run();
    merge_symbols(symbols, [&](const Symbol& left, const Symbol& right) {
      const auto found = merges_.find(pair_of(left.id, right.id));
      if (found == merges_.end() || !is_allowed(found->second.id))
        return std::optional<PairMerge>();
      return std::optional(found->second);
    });
    std::vector<int32_t> ids;
    for (const Symbol& symbol : symbols) ids.push_back(symbol.id);
    return ids;
  }

 private:
  static uint64_t pair_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  std::string escaped(std::string_view text) const {
    std::string out;
    for (const char byte : text)
      if (byte == ' ' && model_.escape_whitespaces)
        out += kSpaceSymbol;
      else
        out += byte;
    return out;
  }

  // Adds the symbols of normalized text: added tokens, known characters, bytes of unknown ones.
  template <class IsAllowed>
  void add_run(std::string_view run, const IsAllowed& is_allowed,
               std::vector<Symbol>& symbols) const {
    while (!run.empty()) {
      const PieceMatcher::Match added = in_normalized_.longest(run, is_allowed);
      const size_t length = added.length > 0 ? added.length : valid_character(run);
      const auto character = characters_.find(run.substr(0, length));
      if (added.length > 0)
        symbols.push_back({.length = length, .id = added.id, .frozen = true});
      else if (character != characters_.end() && is_allowed(character->second))
        symbols.push_back({.length = length, .id = character->second});
      else
        for (const char byte : run.substr(0, length))
          symbols.push_back({.length = 1, .id = bytes_[static_cast<unsigned char>(byte)]});
      run.remove_prefix(length);
    }
  }

  MergeListModel model_;
  std::array<int32_t, 256> bytes_;
  std::unordered_map<std::string_view, int32_t> characters_;
  std::unordered_map<uint64_t, PairMerge> merges_;
  PieceMatcher in_text_, in_normalized_;
};

}  // namespace

std::unique_ptr<const Encoder> make_encoder(MergeListModel model) {
  return std::make_unique<MergeListEncoder>(std::move(model));
}

}  // namespace ridgeline
