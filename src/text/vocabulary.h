// The content of tokenizer files: pieces by id, and the rules that turn text into pieces. The
// readers reject any feature that is not implemented and name it, because silently wrong ids would
// be worse.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

// Numbered as in sentencepiece's files.
enum class PieceKind {
  normal = 1,
  unknown = 2,
  control = 3,       // decodes to no text
  user_defined = 4,  // matched in the text before merging
  unused = 5,        // merged, then split again
  byte = 6           // <0xNN>
};

struct Piece {
  std::string text;
  float score = 0;
  PieceKind kind = PieceKind::normal;
  bool special = false;  // structures a prompt: begin, end, turns
};

struct Vocabulary {
  std::vector<Piece> pieces;            // by id
  std::string unknown_surface;          // text of the unknown piece when decoded
  bool drops_first_space = false;       // decoding drops the space that encoding prepends
  bool drops_all_first_spaces = false;  // or all leading spaces, if encoding trims text
  std::optional<int32_t> bos = {}, eos = {};

  // Throws a usage error for pieces that are empty or not UTF-8.
  void check() const;
  std::optional<int32_t> find(std::string_view text) const;  // a linear search
  // The ids of <0x00> to <0xFF>. Throws a usage error that names the first missing one.
  std::array<int32_t, 256> byte_ids() const;
};

// The byte of a piece "<0xNN>"; nullopt for other pieces.
std::optional<uint8_t> byte_of(std::string_view piece);

// A BPE model of sentencepiece: the adjacent pair whose piece has the highest score merges first.
struct SentencePieceModel {
  Vocabulary vocabulary;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};
SentencePieceModel read_sentencepiece_model(std::string_view bytes);

// A BPE model of the library `tokenizers`: a list of merges, best first, and added tokens that are
// matched in the text before merging.
struct MergeListModel {
  struct Merge {
    int32_t left, right, merged;
  };
  struct Added {
    std::string text;
    int32_t id;
    bool normalized;  // matched after spaces are replaced
  };
  Vocabulary vocabulary;
  std::vector<Merge> merges;
  std::vector<Added> added;
  bool escape_whitespaces = false;
};
MergeListModel read_tokenizer_json(std::string_view text);

inline constexpr std::string_view kStartOfTurn = "<start_of_turn>";
inline constexpr std::string_view kEndOfTurn = "<end_of_turn>";

}  // namespace ridgeline
