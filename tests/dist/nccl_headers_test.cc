// Holds our declarations of NCCL against NVIDIA's own header, where that is installed.
#include <gtest/gtest.h>

#include <tuple>
#include <type_traits>

#include "dist/nccl_api.h"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>

namespace ridgeline {
namespace {

template <class Function>
struct Arguments;
template <class Result, class... Args>
struct Arguments<Result(Args...)> {
  using Type = std::tuple<Args...>;
};
template <class Result, class... Args>
struct Arguments<Result (*)(Args...)> {
  using Type = std::tuple<Args...>;
};

template <class A, class B>
struct SameSizes;
template <class... A, class... B>
struct SameSizes<std::tuple<A...>, std::tuple<B...>> {
  static constexpr bool kValue = [] {
    if constexpr (sizeof...(A) == sizeof...(B))
      return ((sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>)&&...);
    return false;
  }();
};

TEST(NcclHeader, HasTheFunctionsThatWeDeclare) {
  const nccl::Api ours;
#define RIDGELINE_COMPARE(name, result, arguments)                             \
  EXPECT_TRUE((SameSizes<typename Arguments<decltype(ours.name)>::Type,        \
                         typename Arguments<decltype(::name)>::Type>::kValue)) \
      << #name;
  RIDGELINE_NCCL_FUNCTIONS(RIDGELINE_COMPARE)
#undef RIDGELINE_COMPARE
}

TEST(NcclHeader, HasTheValuesThatWeUse) {
  EXPECT_EQ(nccl::kSuccess, static_cast<int>(ncclSuccess));
  EXPECT_EQ(nccl::kInProgress, static_cast<int>(ncclInProgress));
  EXPECT_EQ(nccl::kInt32, static_cast<int>(ncclInt32));
  EXPECT_EQ(nccl::kFloat16, static_cast<int>(ncclFloat16));
  EXPECT_EQ(nccl::kFloat32, static_cast<int>(ncclFloat32));
  EXPECT_EQ(nccl::kBfloat16, static_cast<int>(ncclBfloat16));
  EXPECT_EQ(nccl::kSum, static_cast<int>(ncclSum));
  EXPECT_EQ(sizeof(nccl::UniqueId), sizeof(ncclUniqueId));
}

TEST(NcclHeader, HasTheConfigurationThatWeFillIn) {
  const nccl::Config ours;
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.blocking, theirs.blocking);
  EXPECT_EQ(ours.net_name, theirs.netName);
  EXPECT_LE(ours.version, theirs.version);
  EXPECT_EQ(offsetof(nccl::Config, version), offsetof(ncclConfig_t, version));
  EXPECT_EQ(offsetof(nccl::Config, max_blocks), offsetof(ncclConfig_t, maxCTAs));
  EXPECT_EQ(offsetof(nccl::Config, net_name), offsetof(ncclConfig_t, netName));
}

}  // namespace
}  // namespace ridgeline
#else
TEST(NcclHeader, HasTheFunctionsThatWeDeclare) {
  GTEST_SKIP() << "no nccl.h with a CUDA toolkit";
}
#endif
