#include "runtime/cuda/driver_api.h"

#include "jit/cuda_libraries.h"
#include "jit/run_child.h"

namespace ridgeline::driver_api_test {
namespace {

// The driver is opened once per process, so that each case has one of its own.
std::string error_with(const char* library) {
  const TempDir directory;
  if (library) std::filesystem::copy_file(library, directory / "libcuda.so.1");
  return run_child("OpensTheDriver", {{"RIDGELINE_CUDA_LIBRARIES", directory.path()}}).out;
}

TEST(Child, DISABLED_OpensTheDriver) {
  try {
    cuda::driver();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    printf("%s | %s\n", error.message().c_str(), error.next_step().c_str());
  }
}

TEST(CudaDriver, NoneIsUnsupportedWithWhatWasTriedAndWhatToDo) {
  const std::string error = error_with(nullptr);
  EXPECT_TRUE(contains(error, "no NVIDIA driver was found (tried /")) << error;
  EXPECT_TRUE(contains(error, "| install NVIDIA's driver")) << error;
}

TEST(CudaDriver, OneThatDoesNotStartIsUnsupportedWithTheNameOfItsError) {
  const std::string error = error_with(FAKE_DRIVER);
  EXPECT_TRUE(contains(error, "cuInit gave CUDA_ERROR_NO_DEVICE (100: no CUDA-capable device"))
      << error;
  EXPECT_TRUE(contains(error, "CUDA_VISIBLE_DEVICES")) << error;
}

TEST(CudaDriver, OneThatLacksAFunctionIsUnsupportedWithItsName) {
  const std::string error = error_with(FAKE_LIBRARY);
  EXPECT_TRUE(contains(error, "is too old: it lacks cuInit")) << error;
}

TEST(CudaDriver, SuccessIsNoError) {
  EXPECT_NO_THROW(cuda::check(cuda::kSuccess, "doing nothing"));
}

TEST(CudaDriver, ResultsBecomeErrorsWithTheirNames) {
  try {
    cuda::driver();
  } catch (const Error& error) {
    GTEST_SKIP() << error.message();
  }
  EXPECT_ERROR(cuda::check(cuda::kErrorOutOfMemory, "taking memory"), ErrorKind::out_of_memory,
               "taking memory failed: the CUDA driver gave CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_ERROR(cuda::check(700, "running"), ErrorKind::environment, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

}  // namespace
}  // namespace ridgeline::driver_api_test
