// Converts text to the token ids of a language model, and back:
//
//   const Tokenizer tokenizer = Tokenizer::from_folder("gemma-3-270m");
//   std::vector<int32_t> ids = tokenizer.encode("Why is the sky blue?");  // without bos
//   const std::string text = tokenizer.decode(ids);
//
//   StreamDecoder stream(tokenizer);  // while ids are generated
//   print(stream.add(id));
//   print(stream.finish());
//
// Ids are those of sentencepiece (tokenizer.model) or of the library `tokenizers` (tokenizer.json).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

class Encoder;

// How special pieces such as "<end_of_turn>" in a text are encoded.
enum class SpecialPieces {
  matched,  // as the special piece, if the library of the file's format does so
  as_text   // as ordinary pieces, so that untrusted text cannot end its turn
};

class Tokenizer {
 public:
  // Reads tokenizer.model, or tokenizer.json if there is none. Throws a usage error for damaged
  // files, and an unsupported error that names a feature that is not implemented.
  static Tokenizer from_folder(const std::filesystem::path& folder);
  // A file whose name ends in .json is a tokenizer.json, any other a tokenizer.model.
  static Tokenizer from_file(const std::filesystem::path& path);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Each byte that is not UTF-8 becomes U+FFFD.
  std::vector<int32_t> encode(std::string_view text,
                              SpecialPieces special = SpecialPieces::matched) const;
  // Control pieces decode to no text. Throws a usage error for an id outside of 0 to size() - 1.
  std::string decode(std::span<const int32_t> ids) const;

  int32_t size() const;
  // The id of a piece by its text.
  std::optional<int32_t> find(std::string_view piece) const;
  std::optional<int32_t> bos() const, eos() const;
  // Only in models that were trained to chat.
  std::optional<int32_t> start_of_turn() const { return start_of_turn_; }
  std::optional<int32_t> end_of_turn() const { return end_of_turn_; }

 private:
  friend class StreamDecoder;
  explicit Tokenizer(std::unique_ptr<const Encoder> encoder);

  std::unique_ptr<const Encoder> encoder_;
  std::optional<int32_t> start_of_turn_, end_of_turn_;
};

// Decodes id by id. A character split into several byte pieces is returned once it is complete.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer);  // which must outlive the decoder

  std::string add(int32_t id);
  std::string finish();  // the bytes of an incomplete character, each as U+FFFD

 private:
  std::string whole_characters(bool all);

  const Tokenizer& tokenizer_;
  std::string bytes_;  // of byte pieces, not returned yet
  bool at_start_ = true, dropped_space_ = false, has_text_ = false;
};

}  // namespace ridgeline
