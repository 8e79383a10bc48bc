// What files of tokenizers hold: pieces by their ids, and how text becomes pieces. The readers
// refuse by name whatever would need an algorithm that is not here, because ids that are silently
// wrong cost more than a refusal.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

// The numbers are those of sentencepiece's files.
enum class PieceKind {
  normal = 1,
  unknown = 2,
  control = 3,       // stands for no text
  user_defined = 4,  // matched in the text before anything is merged
  unused = 5,        // merged, then taken apart again
  byte = 6           // <0xNN>
};

struct Piece {
  std::string text;
  float score = 0;
  PieceKind kind = PieceKind::normal;
  bool special = false;  // gives structure to a prompt: begin, end, turns
};

struct Vocabulary {
  std::vector<Piece> pieces;            // by id
  std::string unknown_surface;          // what the unknown piece is decoded to
  bool drops_first_space = false;       // decoding leaves out the space that encoding added
  bool drops_all_first_spaces = false;  // or those that encoding dropped
  std::optional<int32_t> bos = {}, eos = {};

  // Throws a usage error for pieces that are empty or no UTF-8.
  void check() const;
  std::optional<int32_t> find(std::string_view text) const;  // looks at all of them
  // The ids of <0x00> to <0xFF>; a usage error names the first that is missing.
  std::array<int32_t, 256> byte_ids() const;
};

// The byte of a piece "<0xNN>".
std::optional<uint8_t> byte_of(std::string_view piece);

// A model of sentencepiece: the pair of neighbours that makes the piece of the highest score merges
// first.
struct SentencePieceModel {
  Vocabulary vocabulary;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};
SentencePieceModel read_sentencepiece_model(std::string_view bytes);

// A model of the library `tokenizers`: a list of merges, best first, and tokens that are found in
// the text before.
struct MergeListModel {
  struct Merge {
    int32_t left, right, merged;
  };
  struct Added {
    std::string text;
    int32_t id;
    bool normalized;  // found in the text after spaces were replaced
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
