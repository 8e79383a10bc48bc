// Expectations on errors and texts, which print what they got.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace ridgeline::testing {

inline ::testing::AssertionResult text_has(const char*, const char*, std::string_view text,
                                           std::string_view part) {
  if (text.find(part) != text.npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << part << "' is missing in:\n" << text;
}

inline ::testing::AssertionResult text_lacks(const char*, const char*, std::string_view text,
                                             std::string_view part) {
  if (text.find(part) == text.npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << part << "' is in:\n" << text;
}

}  // namespace ridgeline::testing

#define EXPECT_HAS(text, part) EXPECT_PRED_FORMAT2(::ridgeline::testing::text_has, text, part)
#define EXPECT_LACKS(text, part) EXPECT_PRED_FORMAT2(::ridgeline::testing::text_lacks, text, part)

// Expects `statement` to throw an Error of `expected_kind` whose message or next step contains
// `part`.
#define EXPECT_ERROR(statement, expected_kind, part)        \
  try {                                                     \
    statement;                                              \
    ADD_FAILURE() << "expected an Error from " #statement;  \
  } catch (const ::ridgeline::Error& error) {               \
    EXPECT_EQ(error.kind(), expected_kind) << error.what(); \
    EXPECT_HAS(error.what(), part);                         \
  }
