// What a peer may answer, and what a refusal says.
#include "studies/peers/answers.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/expect.h"

namespace ridgeline::peer_answers_test {
namespace {

TEST(PeerAnswers, ARefusedListIsNamedWithItsLimit) {
  EXPECT_ERROR(read_decoded({{"tokens", {1, 2, 3}}, {"step_ms", {1.0}}}, 2), ErrorKind::environment,
               "answered without 'tokens', expected a list of at most 2");
}

}  // namespace
}  // namespace ridgeline::peer_answers_test
