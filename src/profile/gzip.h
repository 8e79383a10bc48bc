// Compresses a stream into the gzip format as it is written.
//
// Only traces are compressed, and they are so repetitive that matches with fixed Huffman codes
// reach about a tenth of their size. This saves the build a dependency on zlib.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

class GzipWriter {
 public:
  // `out` receives the compressed data in order; its exceptions propagate.
  explicit GzipWriter(std::function<void(std::string_view)> out);

  void write(std::string_view text);
  void finish();  // writes the rest and the checksum; call it once, after all writes

 private:
  void compress_block(bool is_last);
  void put_bits(uint32_t bits, int count);
  void put_code(uint32_t code, int count);  // a Huffman code, highest bit first
  void put_literal(uint32_t symbol);
  void put_match(uint32_t length, uint32_t distance);
  void flush_output();

  std::function<void(std::string_view)> out_;
  std::string input_;          // of the current block
  std::vector<int32_t> last_;  // by hash of three bytes: their last position in the block
  std::string output_;
  uint64_t bits_ = 0;
  int bit_count_ = 0;
  uint32_t check_sum_ = 0;
  uint32_t size_ = 0;
};

}  // namespace ridgeline
