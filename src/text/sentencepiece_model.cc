// Reads tokenizer.model: sentencepiece's ModelProto.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/damaged_file.h"
#include "base/error.h"
#include "base/printable.h"
#include "text/protobuf.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace ridgeline {
namespace {

// Field numbers of sentencepiece_model.proto.
enum ModelField { kPieces = 1, kTrainer = 2, kNormalizer = 3, kSelfTest = 4, kDenormalizer = 5 };
enum PieceField { kText = 1, kScore = 2, kType = 3 };
enum TrainerField {
  kModelType = 3,
  kWhitespaceAsSuffix = 24,
  kByteFallback = 35,
  kUnknownSurface = 44,
  kBosPiece = 46,
  kEosPiece = 47
};
enum NormalizerField {
  kName = 1,
  kCharsMap = 2,
  kAddDummyPrefix = 3,
  kRemoveExtraWhitespaces = 4,
  kEscapeWhitespaces = 5,
  kRules = 6  // the text that the map was compiled from
};

Error not_here(const std::string& problem) {
  return {ErrorKind::unsupported, problem,
          "only BPE models without a map of characters are read; Gemma's are such"};
}

// For a field that a later version of the format may have added.
Error not_known(const char* where, const ProtobufField& field) {
  return not_here(
      fmt::format("has the field {} in {}, whose meaning is not known here", field.number, where));
}

Piece read_piece(std::string_view message) {
  Piece piece;
  for_each_field(message, [&](const ProtobufField& field) {
    if (field.number == kText) {
      piece.text = field.bytes();
    } else if (field.number == kScore) {
      piece.score = field.number_fp32();
    } else if (field.number == kType) {
      const uint64_t kind = field.varint();
      if (kind < 1 || kind > 6)
        throw damaged_file(fmt::format("has a piece of type {}, expected 1 to 6", kind));
      piece.kind = static_cast<PieceKind>(kind);
    } else {
      throw not_known("a piece", field);
    }
  });
  if (std::isnan(piece.score))
    throw damaged_file(fmt::format("has no number as score of '{}'", printable(piece.text, 40)));
  piece.special =
      piece.kind == PieceKind::control || piece.text == kStartOfTurn || piece.text == kEndOfTurn;
  return piece;
}

struct Trainer {
  uint64_t model_type = 1;
  std::string bos = "<s>", eos = "</s>";
};

// Ignores most fields, which describe how the model was trained, not how it is used.
void read_trainer(std::string_view message, Trainer& trainer, SentencePieceModel& model) {
  for_each_field(message, [&](const ProtobufField& field) {
    if (field.number == kModelType) trainer.model_type = field.varint();
    if (field.number == kWhitespaceAsSuffix) model.whitespace_as_suffix = field.boolean();
    if (field.number == kByteFallback) model.byte_fallback = field.boolean();
    if (field.number == kUnknownSurface) model.vocabulary.unknown_surface = field.bytes();
    if (field.number == kBosPiece) trainer.bos = field.bytes();
    if (field.number == kEosPiece) trainer.eos = field.bytes();
  });
}

void read_normalizer(std::string_view message, SentencePieceModel& model) {
  std::string name = "of its own";
  bool has_map = false;
  for_each_field(message, [&](const ProtobufField& field) {
    if (field.number == kName) name = field.bytes();
    if (field.number == kCharsMap) has_map = !field.bytes().empty();
    if (field.number == kAddDummyPrefix) model.add_dummy_prefix = field.boolean();
    if (field.number == kRemoveExtraWhitespaces) model.remove_extra_whitespaces = field.boolean();
    if (field.number == kEscapeWhitespaces) model.escape_whitespaces = field.boolean();
    if (field.number > kRules) throw not_known("its normalizer", field);
  });
  if (has_map)
    throw not_here(fmt::format("normalizes characters by a map ('{}'), expected 'identity'",
                               printable(name, 40)));
}

void refuse_denormalizer(std::string_view message) {
  for_each_field(message, [](const ProtobufField& field) {
    if (field.number == kCharsMap && !field.bytes().empty())
      throw not_here("changes decoded text by a map of characters");
  });
}

void check_pieces(const SentencePieceModel& model) {
  const std::vector<Piece>& pieces = model.vocabulary.pieces;
  model.vocabulary.check();
  std::unordered_set<std::string_view> texts;
  for (const Piece& piece : pieces) {
    const std::string shown = printable(piece.text, 40);
    if (!texts.insert(piece.text).second) throw damaged_file(fmt::format("has '{}' twice", shown));
    const bool is_reserved = piece.kind == PieceKind::control || piece.kind == PieceKind::unknown;
    if (is_reserved && valid_character(piece.text) == piece.text.size())
      throw not_here(fmt::format("has the character '{}' as a control piece", shown));
    if (piece.kind == PieceKind::user_defined && piece.text.find('\0') != std::string::npos)
      throw not_here(fmt::format("has a user-defined piece with a zero byte: '{}'", shown));
    if (piece.kind == PieceKind::byte && (!model.byte_fallback || !byte_of(piece.text)))
      throw damaged_file(fmt::format("has '{}' as a byte{}", shown,
                                     model.byte_fallback ? "" : " without falling back to bytes"));
  }
  const auto unknown = std::ranges::count(pieces, PieceKind::unknown, &Piece::kind);
  if (unknown != 1) throw damaged_file(fmt::format("has {} unknown pieces, expected 1", unknown));
}

}  // namespace

SentencePieceModel read_sentencepiece_model(std::string_view bytes) {
  SentencePieceModel model;
  model.vocabulary.unknown_surface = " \xe2\x81\x87 ";
  Trainer trainer;
  for_each_field(bytes, [&](const ProtobufField& field) {
    if (field.number == kPieces) model.vocabulary.pieces.push_back(read_piece(field.bytes()));
    if (field.number == kTrainer) read_trainer(field.bytes(), trainer, model);
    if (field.number == kNormalizer) read_normalizer(field.bytes(), model);
    if (field.number == kSelfTest) field.bytes();  // throws if it is none
    if (field.number == kDenormalizer) refuse_denormalizer(field.bytes());
    if (field.number > kDenormalizer) throw not_known("the model", field);
  });
  constexpr uint64_t kBpe = 2;
  constexpr const char* kTypes[] = {"unigram", "BPE", "word", "character"};
  if (trainer.model_type != kBpe)
    throw not_here(trainer.model_type >= 1 && trainer.model_type <= std::size(kTypes)
                       ? fmt::format("is a {} model", kTypes[trainer.model_type - 1])
                       : fmt::format("is a model of type {}", trainer.model_type));
  check_pieces(model);
  Vocabulary& vocabulary = model.vocabulary;
  vocabulary.drops_first_space = model.add_dummy_prefix || model.remove_extra_whitespaces;
  vocabulary.drops_all_first_spaces = model.remove_extra_whitespaces;
  const auto control = [&](std::string_view text) -> std::optional<int32_t> {
    const auto id = vocabulary.find(text);
    if (!id || vocabulary.pieces[static_cast<size_t>(*id)].kind != PieceKind::control) return {};
    return id;
  };
  vocabulary.bos = control(trainer.bos);
  vocabulary.eos = control(trainer.eos);
  return model;
}

}  // namespace ridgeline
