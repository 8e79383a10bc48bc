// Mutated parameters for the C interface: whatever they say, the answer is a status, and a call
// that is refused writes nothing. Pointers are valid for the extent that they claim.
#include <gtest/gtest.h>
#include <ridgeline/ridgeline.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "api/described.h"

namespace ridgeline::fuzz_test {
namespace {

using api_testing::ContextPointer;
using api_testing::cpu_context;

constexpr int64_t kElements = 4096;
constexpr size_t kTensors = 12;
constexpr size_t kWorkspaceBytes = kElements * sizeof(float);
constexpr int64_t kInteresting[] = {0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    5,
                                    7,
                                    8,
                                    16,
                                    64,
                                    255,
                                    256,
                                    257,
                                    4095,
                                    4096,
                                    -1,
                                    -2,
                                    -16,
                                    1 << 20,
                                    int64_t{1} << 31,
                                    int64_t{1} << 32,
                                    int64_t{1} << 52,
                                    int64_t{1} << 60,
                                    int64_t{1} << 61,
                                    (int64_t{1} << 62) + 1,
                                    std::numeric_limits<int64_t>::max(),
                                    std::numeric_limits<int64_t>::max() - 7,
                                    std::numeric_limits<int64_t>::min()};

// q, k, v, out, log_sum_exp, d_out, d_q, d_k, d_v, two operands of a score function and the
// gradient of the first: one buffer, one description, one pointer each.
class Calls {
 public:
  explicit Calls(uint64_t seed) : random_(seed) {
    const rl_score_node nodes[] = {{RL_SCORE, {}, 0},
                                   {RL_SCORE_OPERAND, {0}, 0},
                                   {RL_SCORE_INT_OPERAND, {1}, 0},
                                   {RL_SCORE_KEY, {}, 0},
                                   {RL_SCORE_LESS, {2, 3}, 0},
                                   {RL_SCORE_MULTIPLY, {0, 1}, 0},
                                   {RL_SCORE_WHERE, {4, 5, 0}, 0}};
    EXPECT_EQ(rl_score_function_create(nodes, std::size(nodes), &function_), RL_OK);
    for (Buffer& buffer : buffers_)
      for (float& value : buffer.values) value = 0.01f * static_cast<float>(below(200)) - 1;
    before_ = buffers_;
  }
  ~Calls() { rl_score_function_destroy(function_); }
  Calls(const Calls&) = delete;

  // Makes one call whose memory is there. Empty: it was answered as it has to be.
  std::string make(rl_context* context, std::map<rl_status, int>& answers) {
    do {
      start();
      for (int64_t changes = below(4); changes > 0; --changes) mutate();
    } while (!claims_are_valid());
    rl_context* used = below(200) == 0 ? nullptr : context;
    size_t bytes = 0;
    rl_status status = RL_OK;
    if (below(2) == 0) {
      std::memcpy(params_.data(), &forward_, sizeof forward_);
      const auto* params = reinterpret_cast<const rl_attention_forward_params*>(params_.data());
      const int64_t which = below(20);
      status = which == 0   ? rl_attention_forward_workspace(used, params, &bytes)
               : which == 1 ? rl_attention_forward_warm_up(used, params)
                            : rl_attention_forward(used, params);
    } else {
      std::memcpy(params_.data(), &backward_, sizeof backward_);
      const auto* params = reinterpret_cast<const rl_attention_backward_params*>(params_.data());
      const int64_t which = below(20);
      status = which == 0   ? rl_attention_backward_workspace(used, params, &bytes)
               : which == 1 ? rl_attention_backward_warm_up(used, params)
                            : rl_attention_backward(used, params);
    }
    ++answers[status];
    if (std::string(rl_status_name(status)) == "RL_ERROR_UNKNOWN") return "an unknown status";
    if (status == RL_ERROR_INTERNAL) return std::string("an internal error: ") + rl_last_error();
    if (status != RL_OK && *rl_last_error() == '\0') return "an error without a message";
    if (status != RL_OK && std::memcmp(&buffers_, &before_, sizeof buffers_) != 0)
      return std::string("memory was written before the refusal: ") + rl_last_error();
    if (status == RL_OK) buffers_ = before_;
    return {};
  }

 private:
  struct Buffer {
    alignas(256) std::array<float, kElements> values;
  };
  struct Numbers {
    std::array<int64_t, 8> shape, strides;
  };

  int64_t below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }
  int64_t interesting() { return kInteresting[below(std::size(kInteresting))]; }

  // A call that is right.
  void start() {
    const int64_t batch = 1 + below(2), key_heads = 1 + below(2),
                  heads = key_heads * (1 + below(2));
    const int64_t queries = 1 + below(9), keys = 1 + below(9), width = 1 + below(16);
    const rl_dtype dtypes[] = {{RL_FLOAT, 32, 1}, {RL_FLOAT, 16, 1}, {RL_BFLOAT, 16, 1}};
    const rl_dtype dtype = dtypes[below(3)];
    const bool with_strides = below(2) == 0;
    for (size_t i = 0; i < kTensors; ++i) {
      const bool of_keys = i == 1 || i == 2 || i == 7 || i == 8, of_rows = i == 4;
      Numbers& numbers = numbers_[i];
      numbers.shape = {batch, of_keys ? key_heads : heads, of_keys ? keys : queries, width, 1, 1, 1,
                       1};
      numbers.strides = {numbers.shape[1] * numbers.shape[2] * width,
                         numbers.shape[2] * width,
                         width,
                         1,
                         1,
                         1,
                         1,
                         1};
      if (of_rows) numbers.strides = {heads * queries, queries, 1, 1, 1, 1, 1, 1};
      if (i == 9 || i == 11) {
        numbers.shape = {1, heads, queries, 1, 1, 1, 1, 1};
        numbers.strides = {heads * queries, queries, 1, 1, 1, 1, 1, 1};
      } else if (i == 10) {
        numbers.shape = {batch, 1, 1, keys, 1, 1, 1, 1};
        numbers.strides = {keys, keys, keys, 1, 1, 1, 1, 1};
      }
      tensors_[i] = {buffers_[i].values.data(),
                     {RL_CPU, 0},
                     of_rows ? 3 : 4,
                     i == 10   ? rl_dtype{RL_INT, 32, 1}
                     : of_rows ? dtypes[0]
                               : dtype,
                     numbers.shape.data(),
                     with_strides ? numbers.strides.data() : nullptr,
                     0};
      pointers_[i] = &tensors_[i];
    }
    forward_ = {};
    backward_ = {};
    forward_.size = sizeof forward_;
    backward_.size = sizeof backward_;
    forward_.causal = backward_.causal = static_cast<int32_t>(below(3));
    forward_.window = backward_.window = forward_.causal != 0 ? below(6) : 0;
    if (below(3) == 0) {
      forward_.score = backward_.score = function_;
      forward_.operand_count = backward_.operand_count = 2;
      forward_.operands = backward_.operands = &pointers_[9];
      gradients_ = {nullptr, nullptr};
      backward_.d_operands = below(3) == 0 ? nullptr : gradients_.data();
    }
    params_.fill(0);
    place();
  }

  void place() {
    forward_.q = backward_.q = pointers_[0];
    forward_.k = backward_.k = pointers_[1];
    forward_.v = backward_.v = pointers_[2];
    forward_.out = backward_.out = pointers_[3];
    forward_.log_sum_exp = backward_.log_sum_exp = pointers_[4];
    backward_.d_out = pointers_[5];
    backward_.d_q = pointers_[6];
    backward_.d_k = pointers_[7];
    backward_.d_v = pointers_[8];
    gradients_[0] = pointers_[11];
  }

  void mutate() {
    const auto which = static_cast<size_t>(below(kTensors));
    rl_tensor& tensor = tensors_[which];
    Numbers& numbers = numbers_[which];
    const auto axis = static_cast<size_t>(below(5));
    switch (below(20)) {
      case 0:
        pointers_[which] = nullptr;
        break;
      case 1:
        tensor.data = nullptr;
        break;
      case 2:
        tensor.shape = nullptr;
        break;
      case 3:
        tensor.strides = below(2) == 0 ? nullptr : numbers.strides.data();
        break;
      case 4:
      case 5:
        numbers.shape[axis] = interesting();
        break;
      case 6:
      case 7:
        tensor.strides = numbers.strides.data();
        numbers.strides[axis] = interesting();
        break;
      case 8:
        tensor.dtype = {static_cast<uint8_t>(below(6)), static_cast<uint8_t>(8 << below(4)),
                        static_cast<uint16_t>(below(3))};
        break;
      case 9:
        tensor.device = {static_cast<int32_t>(below(4)), static_cast<int32_t>(below(2))};
        break;
      case 10:
        tensor.ndim = static_cast<int32_t>(interesting());
        break;
      case 11:
        tensor.byte_offset = static_cast<uint64_t>(interesting());
        break;
      case 12:  // misaligned, or somewhere in a buffer of another
        tensor.data =
            reinterpret_cast<char*>(buffers_[static_cast<size_t>(below(kTensors))].values.data()) +
            below(300);
        break;
      case 13:
        pointers_[which] = &tensors_[static_cast<size_t>(below(kTensors))];
        break;
      case 14:
        forward_.scale = backward_.scale = std::ldexp(1.0, static_cast<int>(below(2400)) - 1200);
        if (below(4) == 0) forward_.scale = backward_.scale = std::nan("");
        break;
      case 15:
        forward_.causal = backward_.causal = static_cast<int32_t>(interesting());
        forward_.window = backward_.window = interesting();
        break;
      case 16:
        forward_.workspace = backward_.workspace =
            reinterpret_cast<char*>(workspace_.data()) + (below(2) == 0 ? 0 : below(64));
        forward_.workspace_bytes = backward_.workspace_bytes = static_cast<size_t>(interesting());
        if (below(2) == 0) forward_.workspace_bytes = backward_.workspace_bytes = kWorkspaceBytes;
        break;
      case 17:
        forward_.operand_count = backward_.operand_count = static_cast<size_t>(below(4));
        if (below(2) == 0) forward_.operands = backward_.operands = nullptr;
        if (below(4) == 0) forward_.score = backward_.score = nullptr;
        if (below(4) == 0) gradients_[1] = &tensors_[10];
        break;
      case 18:
        forward_.uses_stream = backward_.uses_stream = static_cast<int32_t>(below(3));
        forward_.reserved = backward_.reserved = static_cast<int32_t>(below(8) == 0);
        break;
      default:
        forward_.size = backward_.size = static_cast<size_t>(interesting());
        params_[static_cast<size_t>(below(static_cast<int64_t>(params_.size())))] = 1;
        break;
    }
    place();
  }

  // Whether everything that a tensor claims lies in a buffer, or nowhere at all.
  bool claims_are_valid() const {
    for (const rl_tensor* tensor : pointers_)
      if (tensor != nullptr && !claim_is_valid(*tensor)) return false;
    return true;
  }

  bool claim_is_valid(const rl_tensor& tensor) const {
    if (tensor.data == nullptr || tensor.shape == nullptr || tensor.ndim < 0 || tensor.ndim > 8)
      return true;
    __extension__ typedef __int128 Wide;
    const Wide beyond = Wide{1} << 56;
    const auto begin = static_cast<Wide>(reinterpret_cast<uintptr_t>(tensor.data)) +
                       static_cast<Wide>(tensor.byte_offset);
    Wide last = 0, contiguous = 1;
    for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
      const Wide size = tensor.shape[axis];
      if (size < 1) return true;  // claims nothing
      const Wide stride = tensor.strides == nullptr ? contiguous : Wide{tensor.strides[axis]};
      if (stride < 0) return true;
      last += (size - 1) * stride;
      contiguous *= size;
      if (last > beyond || contiguous > beyond) return true;  // no memory is as large
    }
    const Wide end = begin + (last + 1) * 4;
    if (end > Wide{std::numeric_limits<uintptr_t>::max()}) return true;
    for (const Buffer& buffer : buffers_) {
      const auto first = static_cast<Wide>(reinterpret_cast<uintptr_t>(buffer.values.data()));
      if (first <= begin && end <= first + Wide{sizeof buffer.values}) return true;
    }
    return false;
  }

  std::mt19937_64 random_;
  std::array<Buffer, kTensors> buffers_, before_;
  alignas(256) std::array<float, kElements + 64> workspace_ = {};
  std::array<Numbers, kTensors> numbers_ = {};
  std::array<rl_tensor, kTensors> tensors_ = {};
  std::array<const rl_tensor*, kTensors> pointers_ = {};
  std::array<const rl_tensor*, 2> gradients_ = {};
  rl_score_function* function_ = nullptr;
  rl_attention_forward_params forward_ = {};
  rl_attention_backward_params backward_ = {};
  alignas(8) std::array<char, 8192> params_ = {};  // what lies behind the struct is there, too
};

// Two threads on one context; the sum of both is `count`.
void fuzz(int count) {
  const ContextPointer context = cpu_context(2);
  std::map<rl_status, int> answers[2];
  const auto work = [&](size_t thread) {
    const auto calls = std::make_unique<Calls>(thread + 1);
    for (int i = 0; i < count / 2; ++i)
      ASSERT_EQ(calls->make(context.get(), answers[thread]), "") << "call " << i;
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  // Mutations that are all refused, or all served, would test little.
  EXPECT_GT(answers[0][RL_OK], count / 20);
  EXPECT_GT(answers[0][RL_ERROR_INVALID_ARGUMENT], count / 20);
  EXPECT_GT(answers[0][RL_ERROR_UNSUPPORTED], 0);
}

TEST(LibraryFuzz, AnswersMutatedParametersWithAStatus) {
  fuzz(1000);
}

TEST(SlowLibraryFuzz, AnswersTenThousandMutatedParametersWithAStatus) {
  fuzz(10000);
}

}  // namespace
}  // namespace ridgeline::fuzz_test
