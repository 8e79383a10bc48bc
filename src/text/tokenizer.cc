#include "text/tokenizer.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/file_io.h"
#include "text/encoder.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

// Gemma's files are 5 MB and 33 MB.
constexpr int64_t kLargestFile = int64_t{256} << 20;

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Encoder> encoder)
    : encoder_(std::move(encoder)),
      start_of_turn_(find(kStartOfTurn)),
      end_of_turn_(find(kEndOfTurn)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::from_folder(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"tokenizer.model", "tokenizer.json"})
    if (fs::exists(folder / name, ignored)) return from_file(folder / name);
  throw Error(ErrorKind::usage,
              fmt::format("'{}' has neither tokenizer.model nor tokenizer.json", folder.string()),
              "put the tokenizer's file beside the weights, or give token ids instead of text");
}

Tokenizer Tokenizer::from_file(const fs::path& path) {
  const std::string text = read_file(path, kLargestFile);
  try {
    return Tokenizer(path.extension() == ".json" ? make_encoder(read_tokenizer_json(text))
                                                 : make_encoder(read_sentencepiece_model(text)));
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("'{}' {}", path.string(), error.message()),
                error.next_step());
  }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialPieces special) const {
  return encoder_->encode(text, special);
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  StreamDecoder stream(*this);
  std::string text;
  for (const int32_t id : ids) text += stream.add(id);
  return text + stream.finish();
}

int32_t Tokenizer::size() const {
  return static_cast<int32_t>(encoder_->vocabulary().pieces.size());
}

std::optional<int32_t> Tokenizer::find(std::string_view piece) const {
  return encoder_->vocabulary().find(piece);
}

std::optional<int32_t> Tokenizer::bos() const {
  return encoder_->vocabulary().bos;
}

std::optional<int32_t> Tokenizer::eos() const {
  return encoder_->vocabulary().eos;
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

std::string StreamDecoder::whole_characters(bool all) {
  std::string text;
  size_t done = 0;
  while (done < bytes_.size()) {
    const std::string_view rest = std::string_view(bytes_).substr(done);
    const size_t length = valid_character(rest);
    if (length == 0 && !all && is_unfinished_character(rest)) break;
    text += length > 0 ? rest.substr(0, length) : kReplacementCharacter;
    done += length > 0 ? length : 1;
  }
  bytes_.erase(0, done);
  has_text_ = has_text_ || !text.empty();
  return text;
}

std::string StreamDecoder::add(int32_t id) {
  const Vocabulary& vocabulary = tokenizer_.encoder_->vocabulary();
  if (id < 0 || id >= tokenizer_.size())
    throw Error(
        ErrorKind::usage,
        fmt::format("the token id {} is not in the vocabulary of {} pieces", id, tokenizer_.size()),
        "the tokenizer belongs to another model");
  const Piece& piece = vocabulary.pieces[static_cast<size_t>(id)];
  if (piece.kind == PieceKind::byte) {
    bytes_ += static_cast<char>(byte_of(piece.text).value());
    return whole_characters(false);
  }
  std::string text = whole_characters(true);
  if (dropped_space_ || has_text_) at_start_ = false;
  dropped_space_ = false;
  if (piece.kind == PieceKind::unknown) text += vocabulary.unknown_surface;
  if (piece.kind != PieceKind::unknown && piece.kind != PieceKind::control) {
    std::string_view rest = piece.text;
    if (at_start_ && vocabulary.drops_first_space && rest.starts_with(kSpaceSymbol)) {
      rest.remove_prefix(kSpaceSymbol.size());
      dropped_space_ = !vocabulary.drops_all_first_spaces;
    }
    for (size_t space; (space = rest.find(kSpaceSymbol)) != rest.npos;) {
      text.append(rest.substr(0, space)) += ' ';
      rest.remove_prefix(space + kSpaceSymbol.size());
    }
    text += rest;
  }
  has_text_ = has_text_ || !text.empty();
  return text;
}

std::string StreamDecoder::finish() {
  return whole_characters(true);
}

}  // namespace ridgeline
