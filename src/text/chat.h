// The prompt that models trained to chat expect (Gemma's "-it").
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ridgeline {

// <bos><start_of_turn>user\n{text}<end_of_turn>\n<start_of_turn>model\n, the text without the
// whitespace around it, as Gemma's template has it. The turns are made here only: "<end_of_turn>"
// within `text` stays text, so that what a user pastes cannot speak as the model. Throws an
// unsupported error where the tokenizer lacks one of the pieces.
std::vector<int32_t> chat_prompt(const Tokenizer& tokenizer, std::string_view text);

}  // namespace ridgeline
