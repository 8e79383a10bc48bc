// SHA-256 (FIPS 180-4), for the names of compiled kernels and the checksums of their files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ridgeline {

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  void add(std::string_view bytes);
  // Hashes the length as well, so that ("ab", "c") and ("a", "bc") differ.
  void add_field(std::string_view bytes);
  Digest finish();

 private:
  void compress(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> block_ = {};
  size_t in_block_ = 0;
  uint64_t total_ = 0;
};

Sha256::Digest sha256(std::string_view bytes);
std::string to_hex(const Sha256::Digest& digest);

}  // namespace ridgeline
