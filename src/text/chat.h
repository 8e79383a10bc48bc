// Builds the prompt that models trained to chat expect (Gemma's "-it").
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ridgeline {

// Returns <bos><start_of_turn>user\n{text}<end_of_turn>\n<start_of_turn>model\n with the text
// trimmed, as in Gemma's template. "<end_of_turn>" within `text` is encoded as ordinary text, so
// that pasted text cannot speak as the model. Throws an unsupported error if the tokenizer lacks
// one of the pieces.
std::vector<int32_t> chat_prompt(const Tokenizer& tokenizer, std::string_view text);

}  // namespace ridgeline
