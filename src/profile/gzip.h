// Compresses a stream into the gzip format as it is written.
//
// Our own, in a page: traces are the one thing that is compressed, their text repeats itself so
// much that matches with fixed codes reach about a tenth, and a build needs no further library.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

class GzipWriter {
 public:
  // `out` takes compressed pieces in order; what it throws goes through.
  explicit GzipWriter(std::function<void(std::string_view)> out);

  void write(std::string_view text);
  void finish();  // writes what is left and the check sum; nothing can be written afterwards

 private:
  void compress_block(bool is_last);
  void put_bits(uint32_t bits, int count);
  void put_code(uint32_t code, int count);  // Huffman codes go in from their highest bit on
  void put_literal(uint32_t symbol);
  void put_match(uint32_t length, uint32_t distance);
  void flush_output();

  std::function<void(std::string_view)> out_;
  std::string input_;          // of the block under way
  std::vector<int32_t> last_;  // by hash of three bytes: where they stood last in the block
  std::string output_;
  uint64_t bits_ = 0;
  int bit_count_ = 0;
  uint32_t check_sum_ = 0;
  uint32_t size_ = 0;
};

}  // namespace ridgeline
