// Text to the ids that a language model reads, and back:
//
//   const Tokenizer tokenizer = Tokenizer::from_folder("gemma-3-270m");
//   std::vector<int32_t> ids = tokenizer.encode("Why is the sky blue?");  // bos is not among them
//   const std::string text = tokenizer.decode(ids);
//
//   StreamDecoder stream(tokenizer);  // while ids are made
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

// What "<end_of_turn>" in a text becomes, and others that give structure to a prompt.
enum class SpecialPieces {
  matched,  // the piece of that name, where the library that wrote the file does so
  as_text   // ordinary pieces: text of a stranger cannot end its turn
};

class Tokenizer {
 public:
  // Reads tokenizer.model, or tokenizer.json where there is none. Throws a usage error for damaged
  // files, and an unsupported one that names what a file needs and is not here.
  static Tokenizer from_folder(const std::filesystem::path& folder);
  // A file whose name ends in .json is a tokenizer.json, any other a tokenizer.model.
  static Tokenizer from_file(const std::filesystem::path& path);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Bytes that are no UTF-8 become U+FFFD each.
  std::vector<int32_t> encode(std::string_view text,
                              SpecialPieces special = SpecialPieces::matched) const;
  // Control pieces stand for no text. Throws a usage error for an id that is not below size().
  std::string decode(std::span<const int32_t> ids) const;

  int32_t size() const;
  // The id of a piece by its text.
  std::optional<int32_t> find(std::string_view piece) const;
  std::optional<int32_t> bos() const, eos() const;
  // Of models that were trained to chat.
  std::optional<int32_t> start_of_turn() const { return start_of_turn_; }
  std::optional<int32_t> end_of_turn() const { return end_of_turn_; }

 private:
  friend class StreamDecoder;
  explicit Tokenizer(std::unique_ptr<const Encoder> encoder);

  std::unique_ptr<const Encoder> encoder_;
  std::optional<int32_t> start_of_turn_, end_of_turn_;
};

// Decodes id by id. A character that comes in several byte pieces is given once it is whole.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer);  // which outlives this

  std::string add(int32_t id);
  std::string finish();  // bytes that no character was made of, as U+FFFD

 private:
  std::string whole_characters(bool all);

  const Tokenizer& tokenizer_;
  std::string bytes_;  // of byte pieces, not given yet
  bool at_start_ = true, dropped_space_ = false, has_text_ = false;
};

}  // namespace ridgeline
