#include "models/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/float16.h"

namespace ridgeline {

namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLargestHeader = 100'000'000;  // the format's own limit

Error cannot_read(const fs::path& path, int error) {
  return {error == EIO ? ErrorKind::environment : ErrorKind::usage,
          fmt::format("cannot read '{}': {}", path.string(), errno_text(error))};
}

void read_at(int fd, const fs::path& path, int64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = pread(fd, to.data(), to.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw cannot_read(path, errno);
    if (got == 0)
      throw Error(
          ErrorKind::usage,
          fmt::format("'{}' ends at byte {}, {} bytes early", path.string(), offset, to.size()),
          "the file was cut while it was read; get it again");
    to = to.subspan(static_cast<size_t>(got));
    offset += got;
  }
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void expect_floats(const fs::path& path, const StoredTensor& tensor) {
  for (const char* known : {"F32", "BF16", "F16"})
    if (tensor.dtype == known) return;
  throw Error(ErrorKind::usage, fmt::format("'{}' has '{}' as {}, expected F32, BF16 or F16",
                                            path.string(), shown_name(tensor.name), tensor.dtype));
}

SafetensorsFile::SafetensorsFile(fs::path path) : path_(std::move(path)) {
  const auto refuse = [&](const std::string& problem) {
    return Error(ErrorKind::usage, fmt::format("'{}' {}", path_.string(), problem),
                 "expected a whole file of the safetensors format");
  };
  // Not blocking: a pipe is refused below, not waited for.
  file_ = open_file(path_, O_RDONLY | O_NONBLOCK, "read");
  struct stat facts = {};
  if (fstat(file_.get(), &facts) != 0) throw cannot_read(path_, errno);
  if (!S_ISREG(facts.st_mode)) throw refuse("is no regular file");
  const int64_t size = facts.st_size;
  if (size < kLengthBytes) throw refuse(fmt::format("has {} bytes, too few for a header", size));
  std::array<std::byte, kLengthBytes> length_bytes;
  read_at(file_.get(), path_, 0, length_bytes);
  const auto length = std::bit_cast<uint64_t>(length_bytes);
  if (length > static_cast<uint64_t>(kLargestHeader))
    throw refuse(fmt::format("says that its header has {} bytes, expected at most {}", length,
                             kLargestHeader));
  if (static_cast<int64_t>(length) > size - kLengthBytes)
    throw refuse(fmt::format("has {} bytes but says that its header alone has {}", size, length));
  std::string text(static_cast<size_t>(length), ' ');
  read_at(file_.get(), path_, kLengthBytes, std::as_writable_bytes(std::span(text)));
  data_begin_ = kLengthBytes + static_cast<int64_t>(length);
  try {
    header_ = parse_safetensors_header(text, size - data_begin_);
  } catch (const Error& error) {
    throw error.at(path_.string());
  }
}

const StoredTensor& SafetensorsFile::find(std::string_view name) const {
  for (const StoredTensor& tensor : header_.tensors)
    if (tensor.name == name) return tensor;
  throw Error(ErrorKind::usage, fmt::format("'{}' has no tensor '{}'", path_.string(), name));
}

std::vector<std::byte> SafetensorsFile::read(const StoredTensor& tensor) const {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.end - tensor.begin));
  read_at(file_.get(), path_, data_begin_ + tensor.begin, bytes);
  return bytes;
}

std::vector<float> SafetensorsFile::read_floats(const StoredTensor& tensor) const {
  expect_floats(path_, tensor);
  const bool wide = tensor.dtype == "F32";
  const std::vector<std::byte> bytes = read(tensor);
  std::vector<float> values(bytes.size() / (wide ? 4 : 2));
  if (wide) {
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  const bool is_bf16 = tensor.dtype == "BF16";
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, &bytes[2 * i], sizeof bits);
    values[i] = is_bf16 ? bf16_to_float(bits) : f16_to_float(bits);
  }
  return values;
}

void save_weights(const fs::path& path, std::span<const Parameter> parameters,
                  const std::function<std::vector<float>(const Parameter&)>& values_of,
                  const std::map<std::string, std::string>& metadata) {
  const std::string header = safetensors_header_text(parameters, metadata);
  write_file_atomically(path, [&](const Append& append) {
    const uint64_t length = header.size();
    append(as_text(std::as_bytes(std::span(&length, 1))));
    append(header);
    for (const Parameter& parameter : parameters) {
      const std::vector<float> values = values_of(parameter);
      if (static_cast<int64_t>(values.size()) != element_count(parameter.shape))
        throw Error(ErrorKind::internal,
                    fmt::format("'{}' has {} values for the shape {}", parameter.name,
                                values.size(), to_string(parameter.shape)));
      append(as_text(std::as_bytes(std::span(values))));
    }
  });
}

}  // namespace ridgeline
