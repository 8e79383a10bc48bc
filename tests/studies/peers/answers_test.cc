// What a peer may answer, and what a refusal says.
#include "studies/peers/answers.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ridgeline::peer_answers_test {
namespace {

TEST(PeerAnswers, ARefusedListIsNamedWithItsLimit) {
  try {
    read_decoded({{"tokens", {1, 2, 3}}, {"step_ms", {1.0}}}, 2);
    FAIL() << "three tokens where two were asked for";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "answered without 'tokens', expected a list of at most 2");
  }
}

}  // namespace
}  // namespace ridgeline::peer_answers_test
