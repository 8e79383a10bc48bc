// Files of tokenizers made by hand: the wire format of tokenizer.model, and a small vocabulary in
// both forms.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/protobuf.h"
#include "text/vocabulary.h"

namespace ridgeline {

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

inline std::string varint_field(uint32_t number, uint64_t value) {
  return varint(number << 3) + varint(value);
}

inline std::string bytes_field(uint32_t number, std::string_view bytes) {
  return (varint(number << 3 | 2) + varint(bytes.size())).append(bytes);
}

inline std::string float_field(uint32_t number, float value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return varint(number << 3 | 5) + bytes;
}

inline std::string piece_field(const Piece& piece) {
  return bytes_field(1, bytes_field(1, piece.text) + float_field(2, piece.score) +
                            varint_field(3, static_cast<uint64_t>(piece.kind)));
}

// Fields that change how a model is used; they count although the file has them already, as the
// last one of a kind does.
inline const std::string kBpeTrainer =
    bytes_field(2, varint_field(3, 2) + varint_field(35, 1) + bytes_field(46, "<bos>") +
                       bytes_field(47, "<eos>"));
inline const std::string kPlainNormalizer = bytes_field(
    3, bytes_field(1, "identity") + varint_field(3, 0) + varint_field(4, 0) + varint_field(5, 1));

// Pieces as Gemma's files have them, but fewer.
inline std::vector<Piece> small_pieces() {
  std::vector<Piece> pieces = {{"<pad>", 0, PieceKind::control},
                               {"<eos>", 0, PieceKind::control},
                               {"<bos>", 0, PieceKind::control},
                               {"<unk>", 0, PieceKind::unknown},
                               {"<mask>", 0, PieceKind::user_defined}};
  for (const char* text : {"<start_of_turn>", "<end_of_turn>", "\n", "\n\n", "\t", "▁▁", "▁▁▁",
                           "▁▁▁▁", "<code>", "<i>"})
    pieces.push_back({text, 0, PieceKind::user_defined});
  for (int byte = 0; byte < 256; ++byte)
    pieces.push_back({fmt::format("<0x{:02X}>", byte), 0, PieceKind::byte});
  float score = 0;
  for (const char* text :
       {"he", "ll",   "hell", "hello", "▁w",   "or",    "ld", "▁wor", "▁world", "us",
        "er", "user", "mo",   "de",    "mode", "model", "el", "▁",    "h",      "e",
        "l",  "o",    "w",    "r",     "d",    "u",     "s",  "m",    "x",      "é"})
    pieces.push_back({text, -score++, PieceKind::normal});
  return pieces;
}

inline std::string model_file(const std::vector<Piece>& pieces) {
  std::string file;
  for (const Piece& piece : pieces) file += piece_field(piece);
  return file + kBpeTrainer + kPlainNormalizer;
}

// The same vocabulary as a tokenizer.json: every way to make a piece of two others is a merge, the
// one of the highest score first. User-defined pieces are added tokens, found in text whose spaces
// were replaced; control pieces are none.
inline Json tokenizer_json(const std::vector<Piece>& pieces) {
  Json root = Json::parse(R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],
    "normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},
    "pre_tokenizer":{"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious",
      "invert":false},
    "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<bos>",
      "type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}},
      {"Sequence":{"id":"B","type_id":1}}],
      "special_tokens":{"<bos>":{"id":"<bos>","ids":[2],"tokens":["<bos>"]}}},
    "decoder":{"type":"Sequence","decoders":[
      {"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},
      {"type":"Fuse"}]},
    "model":{"type":"BPE","dropout":null,"unk_token":"<unk>","continuing_subword_prefix":null,
      "end_of_word_suffix":null,"fuse_unk":true,"byte_fallback":true,"ignore_merges":false,
      "vocab":{},"merges":[]}})");
  std::vector<std::pair<float, size_t>> by_score;
  Json& vocab = root["model"]["vocab"];
  for (size_t id = 0; id < pieces.size(); ++id) {
    vocab[pieces[id].text] = id;
    if (pieces[id].kind == PieceKind::normal) by_score.push_back({-pieces[id].score, id});
    // Sentencepiece does not find one with a plain space in it.
    if (pieces[id].kind == PieceKind::user_defined &&
        pieces[id].text.find(' ') == std::string::npos)
      root["added_tokens"].push_back({{"id", id},
                                      {"content", pieces[id].text},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false},
                                      {"normalized", true},
                                      {"special", false}});
  }
  std::sort(by_score.begin(), by_score.end());
  for (const auto& [score, id] : by_score) {
    const std::string& text = pieces[id].text;
    for (size_t left = 1; left < text.size(); ++left)
      if (vocab.contains(text.substr(0, left)) && vocab.contains(text.substr(left)))
        root["model"]["merges"].push_back(Json::array({text.substr(0, left), text.substr(left)}));
  }
  return root;
}

// The pieces of a tokenizer.model.
inline std::vector<Piece> pieces_of(std::string_view model) {
  return read_sentencepiece_model(model).vocabulary.pieces;
}

}  // namespace ridgeline
