#include "studies/peers/tensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/file_io.h"
#include "kernels/host_values.h"
#include "studies/host_tensors.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTensorNames[] = {"q", "k", "v", "d_output"};

int64_t elements_per_head(const AttentionConfig& config) {
  return config.seq_len * config.head_dim;
}

int64_t elements(const AttentionConfig& config) {
  return config.batch_size * config.heads * elements_per_head(config);
}

void write_tensor(const fs::path& path, const AttentionConfig& config, uint64_t seed,
                  const std::string& name, const RangeRunner& run) {
  const FileDescriptor file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, "write");
  random_values(
      config.dtype, elements(config), {seed, name}, run, [&](const std::vector<char>& part) {
        if (const int problem = write_all(file.get(), {part.data(), part.size()}))
          throw Error(ErrorKind::environment,
                      fmt::format("cannot write {}: {}", path.string(), errno_text(problem)),
                      "set TMPDIR to a folder with more room");
      });
}

}  // namespace

void WorkerTensors::provide(const AttentionConfig& config, uint64_t seed, const RangeRunner& run) {
  if (!folder_) folder_ = std::make_unique<TemporaryDirectory>();
  for (const char* result : {"output", "d_q", "d_k", "d_v"}) {
    std::error_code ignored;
    fs::remove(folder() / result, ignored);
  }
  const std::string wanted =
      fmt::format("{} elements of {}, seed {}", elements(config), info(config.dtype).name, seed);
  if (wanted == provided_) return;
  provided_.clear();
  for (const char* name : kTensorNames) write_tensor(folder() / name, config, seed, name, run);
  provided_ = wanted;
}

std::vector<double> WorkerTensors::read(const AttentionConfig& config, const std::string& tensor,
                                        int64_t head) const {
  const fs::path path = folder() / tensor;
  const int size = info(config.dtype).size;
  std::error_code missing;
  const auto found = static_cast<int64_t>(fs::file_size(path, missing));
  if (missing || found != elements(config) * size)
    throw Error(ErrorKind::wrong_result, fmt::format("{} has {} bytes instead of {}", tensor,
                                                     missing ? 0 : found, elements(config) * size));
  const FileDescriptor file = open_file(path, O_RDONLY, "read");
  const int64_t count = elements_per_head(config);
  std::vector<char> stored(static_cast<size_t>(count * size));
  size_t done = 0;
  while (done < stored.size()) {
    const ssize_t got = pread(file.get(), stored.data() + done, stored.size() - done,
                              head * count * size + static_cast<off_t>(done));
    if (got <= 0)
      throw Error(ErrorKind::environment,
                  fmt::format("cannot read {}: {}", path.string(), errno_text(errno)));
    done += static_cast<size_t>(got);
  }
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] = load_one(config.dtype, stored.data(), i);
  return values;
}

}  // namespace ridgeline
