#include "base/sha256.h"

#include <gtest/gtest.h>

namespace ridgeline {
namespace {

struct Known {
  std::string text;
  const char* digest;
};

// The examples of FIPS 180-4, and lengths around the end of a block.
TEST(Sha256, AgreesWithKnownDigests) {
  const Known known[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1000000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (const Known& row : known) EXPECT_EQ(to_hex(sha256(row.text)), row.digest);
}

TEST(Sha256, DoesNotDependOnHowTheBytesArrive) {
  const std::string text(200, 'x');
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 hash;
    hash.add(text.substr(0, cut));
    hash.add(text.substr(cut));
    EXPECT_EQ(hash.finish(), sha256(text)) << cut;
  }
}

TEST(Sha256, FieldsAreKeptApart) {
  const auto hash = [](const std::string& first, const std::string& second) {
    Sha256 all;
    all.add_field(first);
    all.add_field(second);
    return all.finish();
  };
  EXPECT_NE(hash("ab", "c"), hash("a", "bc"));
}

}  // namespace
}  // namespace ridgeline
