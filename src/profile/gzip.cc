#include "profile/gzip.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ridgeline {
namespace {

// Constants of the deflate format (RFC 1951).
constexpr size_t kWindow = 32768;
constexpr uint32_t kShortestMatch = 3, kLongestMatch = 258;
constexpr uint32_t kEndOfBlock = 256;
constexpr std::array<uint16_t, 29> kLengthBases = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                                   15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                                   67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<uint8_t, 29> kLengthBits = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::array<uint16_t, 30> kDistanceBases = {
    1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
    193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::array<uint8_t, 30> kDistanceBits = {0, 0, 0,  0,  1,  1,  2,  2,  3,  3,
                                                   4, 4, 5,  5,  6,  6,  7,  7,  8,  8,
                                                   9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

constexpr size_t kBlock = size_t{256} << 10;  // input bytes per deflate block
constexpr size_t kOutput = size_t{64} << 10;  // output bytes per call of the sink
constexpr int kHashBits = 15;

constexpr std::array<uint32_t, 256> kCheckTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? 0xedb88320u ^ (value >> 1) : value >> 1;
    table[byte] = value;
  }
  return table;
}();

uint32_t hash_of(const char* at) {
  uint32_t bytes = 0;
  std::memcpy(&bytes, at, 3);
  return (bytes * 2654435761u) >> (32 - kHashBits);
}

}  // namespace

GzipWriter::GzipWriter(std::function<void(std::string_view)> out)
    : out_(std::move(out)), last_(size_t{1} << kHashBits) {
  constexpr char kHeader[] = {'\x1f', '\x8b', 8, 0, 0, 0, 0, 0, 0, '\xff'};  // no name, no time
  output_.assign(kHeader, sizeof(kHeader));
}

void GzipWriter::write(std::string_view text) {
  uint32_t check = ~check_sum_;
  for (const char byte : text)
    check = kCheckTable[(check ^ static_cast<uint8_t>(byte)) & 0xff] ^ (check >> 8);
  check_sum_ = ~check;
  size_ += static_cast<uint32_t>(text.size());
  while (!text.empty()) {
    const size_t taken = std::min(text.size(), kBlock - input_.size());
    input_.append(text.substr(0, taken));
    text.remove_prefix(taken);
    if (input_.size() == kBlock) compress_block(false);
  }
}

void GzipWriter::finish() {
  compress_block(true);
  if (bit_count_ > 0) put_bits(0, 8 - bit_count_);
  for (const uint32_t word : {check_sum_, size_})
    for (int shift = 0; shift < 32; shift += 8) output_ += static_cast<char>(word >> shift);
  flush_output();
}

void GzipWriter::compress_block(bool is_last) {
  constexpr uint32_t kFixedCodes = 1;
  put_bits(is_last ? 1 : 0, 1);
  put_bits(kFixedCodes, 2);
  std::ranges::fill(last_, -1);
  const auto size = static_cast<int32_t>(input_.size());
  const char* text = input_.data();
  for (int32_t at = 0; at < size;) {
    uint32_t length = 0;
    int32_t candidate = -1;
    if (at + static_cast<int32_t>(kShortestMatch) <= size) {
      int32_t& slot = last_[hash_of(text + at)];
      candidate = slot;
      slot = at;
      const auto most = std::min<uint32_t>(kLongestMatch, static_cast<uint32_t>(size - at));
      if (candidate >= 0 && at - candidate <= static_cast<int32_t>(kWindow))
        while (length < most && text[candidate + static_cast<int32_t>(length)] ==
                                    text[at + static_cast<int32_t>(length)])
          ++length;
    }
    if (length < kShortestMatch) {
      put_literal(static_cast<uint8_t>(text[at++]));
      continue;
    }
    put_match(length, static_cast<uint32_t>(at - candidate));
    for (const int32_t end = at++ + static_cast<int32_t>(length); at < end; ++at)
      if (at + static_cast<int32_t>(kShortestMatch) <= size) last_[hash_of(text + at)] = at;
  }
  put_literal(kEndOfBlock);
  input_.clear();
}

void GzipWriter::put_bits(uint32_t bits, int count) {
  bits_ |= uint64_t{bits} << bit_count_;
  bit_count_ += count;
  for (; bit_count_ >= 8; bit_count_ -= 8, bits_ >>= 8) output_ += static_cast<char>(bits_);
  if (output_.size() >= kOutput) flush_output();
}

void GzipWriter::put_code(uint32_t code, int count) {
  uint32_t reversed = 0;
  for (int bit = 0; bit < count; ++bit) reversed |= (code >> bit & 1) << (count - 1 - bit);
  put_bits(reversed, count);
}

void GzipWriter::put_literal(uint32_t symbol) {
  if (symbol < 144)
    put_code(0x30 + symbol, 8);
  else if (symbol < 256)
    put_code(0x190 + symbol - 144, 9);
  else if (symbol < 280)
    put_code(symbol - 256, 7);
  else
    put_code(0xc0 + symbol - 280, 8);
}

void GzipWriter::put_match(uint32_t length, uint32_t distance) {
  const auto code_of = [](const auto& bases, uint32_t value) {
    return static_cast<size_t>(std::ranges::upper_bound(bases, value) - bases.begin()) - 1;
  };
  const size_t long_code = code_of(kLengthBases, length);
  put_literal(257 + static_cast<uint32_t>(long_code));
  put_bits(length - kLengthBases[long_code], kLengthBits[long_code]);
  const size_t far_code = code_of(kDistanceBases, distance);
  put_code(static_cast<uint32_t>(far_code), 5);
  put_bits(distance - kDistanceBases[far_code], kDistanceBits[far_code]);
}

void GzipWriter::flush_output() {
  out_(output_);
  output_.clear();
}

}  // namespace ridgeline
