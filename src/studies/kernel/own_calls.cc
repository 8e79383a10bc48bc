#include "studies/kernel/own_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/file_io.h"

namespace ridgeline {
namespace {

// Wide enough for a tile that starts past the last row of the widest head.
constexpr int64_t kBandBytes = int64_t{1} << 20;
constexpr char kBandByte = 0x5a;
constexpr int64_t kAlignment = 256;

constexpr std::array kInputs = {"q", "k", "v"};

}  // namespace

struct OwnKernelCalls::Tensors {
  std::array<void*, kInputs.size()> inputs{};
  void* output = nullptr;
};

OwnKernelCalls::OwnKernelCalls(CudaDevice& device, const OwnKernelCode& code,
                               const std::string& entry, const OwnLaunch& launch,
                               const OwnKernelProblem& problem)
    : device_(device), launch_(launch), problem_(problem) {
  const AttentionConfig& config = problem.config;
  bytes_ =
      config.batch_size * config.heads * config.seq_len * config.head_dim * info(config.dtype).size;
  const int64_t most = device.cuda_facts().shared_bytes_per_block;
  if (launch.shared_bytes > most)
    throw Error(ErrorKind::usage,
                fmt::format("shared = {} bytes is more than the {} that a block of "
                            "this GPU can have",
                            launch.shared_bytes, most));
  const auto take = [&](int64_t bytes, const char* name) {
    memory_.push_back(device.ledger().allocate(Bytes{bytes}, name));
    return memory_.back().data();
  };
  banded_ = take(bytes_ + 2 * kBandBytes, "output and its bands");
  // One allocation and one upload for all copies of a tensor: a short sequence has very many.
  const int64_t step = (bytes_ + kAlignment - 1) / kAlignment * kAlignment;
  const int64_t all = step * problem.copies;
  copies_.resize(static_cast<size_t>(problem.copies));
  const auto share_out = [&](void* piece, auto&& slot_of) {
    for (int64_t copy = 0; copy < problem.copies; ++copy)
      slot_of(copies_[static_cast<size_t>(copy)]) = static_cast<char*>(piece) + copy * step;
  };
  for (size_t i = 0; i < kInputs.size(); ++i) {
    const std::string values = read_file(problem.folder / kInputs[i], bytes_);
    if (static_cast<int64_t>(values.size()) != bytes_)
      throw Error(ErrorKind::internal,
                  fmt::format("{} has {} bytes instead of {}", kInputs[i], values.size(), bytes_));
    std::vector<char> repeated(static_cast<size_t>(all));
    for (int64_t copy = 0; copy < problem.copies; ++copy)
      std::copy(values.begin(), values.end(), repeated.begin() + copy * step);
    void* piece = take(all, kInputs[i]);
    device.upload({piece, DType::boolean, {all}, {1}}, repeated.data());
    share_out(piece, [&](Tensors& tensors) -> void*& { return tensors.inputs[i]; });
  }
  share_out(take(all, "output"), [](Tensors& tensors) -> void*& { return tensors.output; });
  copies_[0].output = static_cast<char*>(banded_) + kBandBytes;
  const cuda::Driver& driver = cuda::driver();
  cuda::check(driver.cuModuleLoadData(&module_, code.cubin.data()), "loading the kernel");
  cuda::check(driver.cuModuleGetFunction(&function_, module_, entry.c_str()),
              "finding the kernel's entry");
  if (launch.shared_bytes > 0)
    cuda::check(driver.cuFuncSetAttribute(function_, cuda::kMaxDynamicSharedBytes,
                                          static_cast<int>(launch.shared_bytes)),
                "asking for its shared memory");
}

OwnKernelCalls::~OwnKernelCalls() {
  if (module_) cuda::driver().cuModuleUnload(module_);
}

TensorView OwnKernelCalls::view(void* data) const {
  const AttentionConfig& config = problem_.config;
  const Shape shape{config.batch_size * config.heads * config.seq_len * config.head_dim};
  return {data, config.dtype, shape, {1}};
}

void OwnKernelCalls::forward(int64_t copy) {
  const AttentionConfig& config = problem_.config;
  Tensors& tensors = copies_[static_cast<size_t>(copy)];
  int sizes[] = {static_cast<int>(config.batch_size), static_cast<int>(config.heads),
                 static_cast<int>(config.seq_len), static_cast<int>(config.head_dim)};
  float scale = 1 / std::sqrt(static_cast<float>(config.head_dim));
  int causal = config.causal;
  void* parameters[] = {
      &tensors.inputs[0], &tensors.inputs[1], &tensors.inputs[2], &tensors.output, &sizes[0],
      &sizes[1],          &sizes[2],          &sizes[3],          &scale,          &causal};
  const auto number = [](int64_t value) { return static_cast<unsigned>(value); };
  cuda::check(cuda::driver().cuLaunchKernel(function_, number(launch_.grid[0]),
                                            number(launch_.grid[1]), number(launch_.grid[2]),
                                            number(launch_.block[0]), number(launch_.block[1]),
                                            number(launch_.block[2]), number(launch_.shared_bytes),
                                            device_.stream(), parameters, nullptr),
              "starting the kernel");
}

void OwnKernelCalls::backward(int64_t) {
  throw Error(ErrorKind::internal, "own kernels have a forward only");
}

void OwnKernelCalls::run_poisoned(bool) {
  const std::vector<char> bands(static_cast<size_t>(bytes_ + 2 * kBandBytes), kBandByte);
  device_.upload({banded_, DType::boolean, {static_cast<int64_t>(bands.size())}, {1}},
                 bands.data());
  device_.poison(view(copies_[0].output));
  forward(0);
  cuda::check(cuda::driver().cuStreamSynchronize(device_.stream()), "running the kernel");
  check_bounds();
}

std::vector<char> OwnKernelCalls::download(void* data, int64_t bytes) const {
  std::vector<char> stored(static_cast<size_t>(bytes));
  device_.download({data, DType::boolean, {bytes}, {1}}, stored.data());
  return stored;
}

void OwnKernelCalls::check_bounds() const {
  const auto touched = [&](const char* where, int64_t offset) {
    const std::vector<char> band = download(static_cast<char*>(banded_) + offset, kBandBytes);
    const auto changed =
        std::count_if(band.begin(), band.end(), [](char byte) { return byte != kBandByte; });
    if (changed > 0)
      throw Error(ErrorKind::wrong_result,
                  fmt::format("it writes out of bounds: {} bytes {} its output were changed",
                              changed, where),
                  "check the rows past seq_len, where seq_len is no multiple of the tile");
  };
  touched("before", 0);
  touched("after", kBandBytes + bytes_);
  for (size_t i = 0; i < kInputs.size(); ++i)
    if (!std::ranges::equal(download(copies_[0].inputs[i], bytes_),
                            read_file(problem_.folder / kInputs[i], bytes_)))
      throw Error(ErrorKind::wrong_result, fmt::format("it changes its input {}", kInputs[i]));
}

std::vector<double> OwnKernelCalls::read(const char*, int64_t) const {
  throw Error(ErrorKind::internal, "an own kernel's results are read from a file");
}

void OwnKernelCalls::write_output(const std::filesystem::path& path) const {
  const std::vector<char> values = download(copies_[0].output, bytes_);
  write_file_atomically(path, {values.data(), values.size()});
}

}  // namespace ridgeline
