#include "profile/trace_file.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace ridgeline {
namespace {

// Compresses text into the gzip format as it is written.
class GzipStream {
 public:
  explicit GzipStream(const Append& out) : out_(out), packed_(size_t{64} << 10) {
    constexpr int kLargestWindow = 15, kGzipHeader = 16, kMemoryLevel = 8;
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kLargestWindow + kGzipHeader,
                     kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK)
      throw Error(ErrorKind::out_of_memory, "zlib got no memory to compress a trace",
                  "write it without \".gz\" at the end of its name");
  }
  ~GzipStream() { deflateEnd(&stream_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  void write(std::string_view text) {
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, size_t{1} << 30);  // zlib counts in 32 bits
      compress(piece, Z_NO_FLUSH);
      text.remove_prefix(piece.size());
    }
  }
  void finish() { compress({}, Z_FINISH); }

 private:
  void compress(std::string_view text, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream_.avail_in = static_cast<uInt>(text.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(packed_.data());
      stream_.avail_out = static_cast<uInt>(packed_.size());
      deflate(&stream_, flush);
      out_({packed_.data(), packed_.size() - stream_.avail_out});
    } while (stream_.avail_out == 0);
  }

  const Append& out_;
  z_stream stream_ = {};
  std::vector<char> packed_;
};

}  // namespace

void write_trace_file(const std::filesystem::path& path,
                      const std::function<void(const Append&)>& content) {
  write_file_atomically(path, [&](const Append& out) {
    if (path.extension() != ".gz") return content(out);
    GzipStream gzip(out);
    content([&](std::string_view text) { gzip.write(text); });
    gzip.finish();
  });
}

}  // namespace ridgeline
