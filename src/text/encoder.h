// Encodes text as ids with one of two kinds of models.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace ridgeline {

class Encoder {
 public:
  virtual ~Encoder() = default;
  virtual std::vector<int32_t> encode(std::string_view text, SpecialPieces special) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

std::unique_ptr<const Encoder> make_encoder(SentencePieceModel model);
std::unique_ptr<const Encoder> make_encoder(MergeListModel model);

}  // namespace ridgeline
