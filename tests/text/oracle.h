// The libraries that ids are held against, each in a process of its own: a file of texts goes in, a
// file of ids and decoded texts comes out. Before each text and each list stands its size in four
// bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "measure/test_support.h"
#include "text/tokenizer.h"

namespace ridgeline {

struct Encoded {
  std::vector<int32_t> ids;
  std::string decoded;
};

inline void run_oracle(const std::vector<std::string>& words) {
  ChildProcess child(words, {.merge_errors = true});
  const std::string said = child.read_all({.seconds = 120}).text;
  ASSERT_EQ(child.end(1), "exit code 0") << said;
}

// `words` start a program that is given the names of both files.
inline std::vector<Encoded> ask_oracle(std::vector<std::string> words, const TempDir& folder,
                                       std::span<const std::string> texts) {
  const auto as_bytes = [](size_t size) {
    const auto number = static_cast<uint32_t>(size);
    std::string bytes(sizeof number, '\0');
    std::memcpy(bytes.data(), &number, sizeof number);
    return bytes;
  };
  std::string all;
  for (const std::string& text : texts) all += as_bytes(text.size()) + text;
  write_text(folder / "texts", all);
  for (const char* name : {"texts", "results"}) words.push_back((folder / name).string());
  run_oracle(words);
  const std::string results = read_text(folder / "results");
  size_t at = 0;
  const auto next = [&] {
    uint32_t number = 0;
    std::memcpy(&number, results.data() + at, sizeof number);
    at += sizeof number;
    return number;
  };
  std::vector<Encoded> encoded;
  while (at < results.size()) {
    Encoded& each = encoded.emplace_back();
    for (uint32_t left = next(); left > 0; --left) each.ids.push_back(static_cast<int32_t>(next()));
    const uint32_t length = next();
    each.decoded = results.substr(at, length);
    at += length;
  }
  return encoded;
}

enum class Decoded { forwards, backwards_then_forwards };

// All texts have the ids that the oracle gives them; the first few that do not are shown.
inline void expect_same(const Tokenizer& tokenizer, std::span<const std::string> texts,
                        std::span<const Encoded> expected, Decoded order) {
  ASSERT_EQ(texts.size(), expected.size());
  int wrong = 0;
  for (size_t i = 0; i < texts.size() && wrong < 5; ++i) {
    const std::vector<int32_t> ids = tokenizer.encode(texts[i]);
    std::vector<int32_t> to_decode;
    if (order == Decoded::backwards_then_forwards)
      to_decode.assign(expected[i].ids.rbegin(), expected[i].ids.rend());
    to_decode.insert(to_decode.end(), expected[i].ids.begin(), expected[i].ids.end());
    const std::string decoded = tokenizer.decode(to_decode);
    if (ids == expected[i].ids && decoded == expected[i].decoded) continue;
    ++wrong;
    EXPECT_EQ(ids, expected[i].ids) << "of '" << texts[i] << "'";
    EXPECT_EQ(decoded, expected[i].decoded);
  }
}

}  // namespace ridgeline
