#include "models/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/float16.h"

namespace ridgeline {

namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLargestHeader = 100'000'000;  // the format's own limit

Error cannot(const char* verb, const fs::path& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
  return {full ? ErrorKind::environment : ErrorKind::usage,
          fmt::format("cannot {} '{}': {}", verb, path.string(),
                      std::generic_category().message(error))};
}

// Closes its descriptor.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

void read_at(int fd, const fs::path& path, int64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = pread(fd, to.data(), to.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw cannot("read", path, errno);
    if (got == 0)
      throw Error(
          ErrorKind::usage,
          fmt::format("'{}' ends at byte {}, {} bytes early", path.string(), offset, to.size()),
          "the file was cut while it was read; get it again");
    to = to.subspan(static_cast<size_t>(got));
    offset += got;
  }
}

void write_all(int fd, const fs::path& path, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t written = write(fd, from.data(), from.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw cannot("write", path, errno);
    from = from.subspan(static_cast<size_t>(written));
  }
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text;
  for (int64_t size : shape) text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
  return '[' + text + ']';
}

void expect_floats(const fs::path& path, const StoredTensor& tensor) {
  for (const char* known : {"F32", "BF16", "F16"})
    if (tensor.dtype == known) return;
  throw Error(ErrorKind::usage, fmt::format("'{}' has '{}' as {}, expected F32, BF16 or F16",
                                            path.string(), shown_name(tensor.name), tensor.dtype));
}

}  // namespace

SafetensorsFile::SafetensorsFile(fs::path path) : path_(std::move(path)) {
  const auto refuse = [&](const std::string& problem) {
    return Error(ErrorKind::usage, fmt::format("'{}' {}", path_.string(), problem),
                 "expected a whole file of the safetensors format");
  };
  // Not blocking: a pipe is refused below, not waited for.
  Descriptor file{open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) throw cannot("read", path_, errno);
  struct stat facts = {};
  if (fstat(file.fd, &facts) != 0) throw cannot("read", path_, errno);
  if (!S_ISREG(facts.st_mode)) throw refuse("is no regular file");
  const int64_t size = facts.st_size;
  if (size < kLengthBytes) throw refuse(fmt::format("has {} bytes, too few for a header", size));
  std::array<std::byte, kLengthBytes> length_bytes;
  read_at(file.fd, path_, 0, length_bytes);
  const auto length = std::bit_cast<uint64_t>(length_bytes);
  if (length > static_cast<uint64_t>(kLargestHeader))
    throw refuse(fmt::format("says that its header has {} bytes, expected at most {}", length,
                             kLargestHeader));
  if (static_cast<int64_t>(length) > size - kLengthBytes)
    throw refuse(fmt::format("has {} bytes but says that its header alone has {}", size, length));
  std::string text(static_cast<size_t>(length), ' ');
  read_at(file.fd, path_, kLengthBytes, std::as_writable_bytes(std::span(text)));
  data_begin_ = kLengthBytes + static_cast<int64_t>(length);
  try {
    header_ = parse_safetensors_header(text, size - data_begin_);
  } catch (const Error& error) {
    throw error.at(path_.string());
  }
  fd_ = std::exchange(file.fd, -1);
}

SafetensorsFile::~SafetensorsFile() {
  close(fd_);
}

const StoredTensor& SafetensorsFile::find(std::string_view name) const {
  for (const StoredTensor& tensor : header_.tensors)
    if (tensor.name == name) return tensor;
  throw Error(ErrorKind::usage, fmt::format("'{}' has no tensor '{}'", path_.string(), name));
}

std::vector<std::byte> SafetensorsFile::read(const StoredTensor& tensor) const {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.end - tensor.begin));
  read_at(fd_, path_, data_begin_ + tensor.begin, bytes);
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

void check_weights(const SafetensorsFile& file, std::span<const Parameter> parameters) {
  const std::string path = file.path().string();
  const auto refuse = [](const std::string& problem, const char* whose) {
    return Error(ErrorKind::usage, problem, fmt::format("the file belongs to {}", whose));
  };
  std::map<std::string_view, const StoredTensor*> stored;
  for (const StoredTensor& tensor : file.header().tensors) stored[tensor.name] = &tensor;
  for (const Parameter& parameter : parameters) {
    const auto found = stored.find(parameter.name);
    if (found == stored.end())
      throw refuse(fmt::format("'{}' has no tensor '{}'", path, parameter.name),
                   "another model or a smaller one");
    const StoredTensor& tensor = *found->second;
    if (!std::ranges::equal(tensor.shape, parameter.shape.span()))
      throw refuse(fmt::format("'{}' has '{}' as {}, expected {}", path, parameter.name,
                               shown_name(shape_text(tensor.shape)), to_string(parameter.shape)),
                   "a model of another size");
    expect_floats(path, tensor);
    stored.erase(found);
  }
  if (!stored.empty())
    throw refuse(fmt::format("'{}' has {} tensors, expected {}; the model has no '{}'", path,
                             file.header().tensors.size(), parameters.size(),
                             shown_name(stored.begin()->first)),
                 "another model or a larger one");
}

void load_weights(const fs::path& path, std::span<const Parameter> parameters,
                  const std::function<void(const Parameter&, std::span<const float>)>& use) {
  const SafetensorsFile file(path);
  check_weights(file, parameters);
  for (const Parameter& parameter : parameters)
    use(parameter, file.read_floats(file.find(parameter.name)));
}

void save_weights(const fs::path& path, std::span<const Parameter> parameters,
                  const std::function<std::vector<float>(const Parameter&)>& values_of,
                  const std::map<std::string, std::string>& metadata) {
  const std::string header = safetensors_header_text(parameters, metadata);
  std::error_code problem;
  const bool exists = fs::exists(path, problem);
  const bool replaces = !exists || fs::is_regular_file(path, problem);
  // Through links, so that the file they name is replaced and not the link.
  const fs::path place = exists ? fs::canonical(path) : path;
  fs::create_directories(place.parent_path(), problem);  // what fails shows when it is opened
  const fs::path temporary =
      replaces ? place.string() + fmt::format(".{}.tmp", getpid()) : path.string();
  const int flags = replaces ? O_WRONLY | O_CREAT | O_TRUNC : O_WRONLY;
  Descriptor file{open(temporary.c_str(), flags | O_CLOEXEC, 0666)};
  if (file.fd < 0) throw cannot("write", path, errno);
  try {
    const uint64_t length = header.size();
    write_all(file.fd, path, std::as_bytes(std::span(&length, 1)));
    write_all(file.fd, path, std::as_bytes(std::span(header)));
    for (const Parameter& parameter : parameters) {
      const std::vector<float> values = values_of(parameter);
      if (static_cast<int64_t>(values.size()) != element_count(parameter.shape))
        throw Error(ErrorKind::internal,
                    fmt::format("'{}' has {} values for the shape {}", parameter.name,
                                values.size(), to_string(parameter.shape)));
      write_all(file.fd, path, std::as_bytes(std::span(values)));
    }
    if (fsync(file.fd) != 0 && errno != EINVAL) throw cannot("write", path, errno);
    if (replaces && rename(temporary.c_str(), place.c_str()) != 0)
      throw cannot("write", path, errno);
  } catch (...) {
    if (replaces) unlink(temporary.c_str());
    throw;
  }
}

}  // namespace ridgeline
