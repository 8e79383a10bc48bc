#include "jit/cuda_jit.h"

#include <chrono>

#include "jit/cuda_libraries.h"
#include "jit/disk_cache.h"
#include "jit/kernel_text.h"
#include "jit/run_child.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

#define SKIP_WITHOUT_NVRTC()   \
  if (nvrtc_version().empty()) \
  GTEST_SKIP() << "NVRTC is not installed: " << cuda_library("nvrtc").how_to_get

const CudaKernel kIota = {.file = "iota.cu", .entry = "iota", .constants = {}};

CudaKernel variant(const std::string& value) {
  return {.file = "iota.cu", .entry = "iota", .constants = {{"VARIANT", value}}};
}

bool is_machine_code(const MachineCode& code) {
  return code.cubin.starts_with(
      "\x7f"
      "ELF");
}

TEST(KernelText, ConstantsComeBeforeTheEmbeddedFile) {
  const std::string source = kernel_source({"iota.cu", "iota", {{"A", "1"}, {"B", "a b"}}});
  EXPECT_TRUE(source.starts_with("#define A 1\n#define B a b\n#line 1 \"iota.cu\"\n")) << source;
  EXPECT_TRUE(contains(source, "void iota("));
}

TEST(KernelText, AnUnknownFileIsAnError) {
  EXPECT_ERROR(kernel_source({"none.cu", "none", {}}), ErrorKind::internal, "none.cu");
}

TEST(KernelText, KeysTellKernelsApart) {
  EXPECT_EQ(kernel_key({"f.cu", "f", {{"HEAD_DIM", "64"}, {"ELEMENT", "bf16"}}}),
            "f.cu:f HEAD_DIM=64 ELEMENT=bf16");
  EXPECT_NE(kernel_key(variant("1")), kernel_key(variant("2")));
}

TEST(KernelText, FileNamesAreReadableAndTellKernelsApart) {
  EXPECT_EQ(kernel_file_name({"f.cu", "f", {{"HEAD_DIM", "64"}}}, "sm_80"), "f-HEAD_DIM_64-sm_80");
  const std::string slash = kernel_file_name(variant("a/b"), "sm_80");
  EXPECT_FALSE(contains(slash, "/")) << slash;
  EXPECT_NE(slash, kernel_file_name(variant("a*b"), "sm_80"));
  const std::string long_name = kernel_file_name(variant(std::string(500, 'x')), "sm_80");
  EXPECT_LT(long_name.size(), 140u);
  EXPECT_NE(long_name, kernel_file_name(variant(std::string(501, 'x')), "sm_80"));
}

TEST(KernelResources, AreReadOutOfTheLog) {
  const KernelResources resources = kernel_resources(
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas         .     1440 bytes stack frame, 672 bytes spill stores, 1056 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 0 barriers, 1440 bytes cumulative stack size, "
      "256 bytes smem, 368 bytes cmem[0]\n");
  EXPECT_EQ(resources.registers, 255);
  EXPECT_EQ(resources.spill_bytes, 672 + 1056);
  EXPECT_EQ(resources.stack_bytes, 1440);
  EXPECT_EQ(resources.shared_bytes, 256);
}

TEST(CudaJit, CompilesForTheArchWithItsResources) {
  SKIP_WITHOUT_NVRTC();
  const MachineCode code = CudaJit({.arch = "sm_90a", .cache_dir = "off"}).machine_code(kIota);
  EXPECT_TRUE(is_machine_code(code));
  EXPECT_FALSE(code.from_cache);
  EXPECT_GT(code.seconds, 0);
  EXPECT_TRUE(contains(code.log, "'sm_90a'")) << code.log;
  EXPECT_GT(kernel_resources(code.log).registers, 0) << code.log;
  EXPECT_EQ(kernel_resources(code.log).spill_bytes, 0) << code.log;
}

TEST(CudaJit, TheSecondTimeComesFromTheCacheAndIsTheSame) {
  SKIP_WITHOUT_NVRTC();
  const TempDir directory;
  const JitOptions options = {.arch = "sm_80", .cache_dir = directory / "cache"};
  const MachineCode first = CudaJit(options).machine_code(kIota);
  const MachineCode second = CudaJit(options).machine_code(kIota);
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(first.cubin, second.cubin);
  EXPECT_EQ(first.log, second.log);
}

TEST(CudaJit, AHitTakesLessThanFiveMilliseconds) {
  SKIP_WITHOUT_NVRTC();
  const TempDir directory;
  const CudaJit jit({.arch = "sm_80", .cache_dir = directory / "cache"});
  jit.machine_code(kIota);
  double best = 1;
  for (int i = 0; i < 5; ++i) best = std::min(best, jit.machine_code(kIota).seconds);
  EXPECT_LT(best, 5e-3);
}

TEST(CudaJit, AnotherConstantOrArchIsCompiledAnew) {
  SKIP_WITHOUT_NVRTC();
  const TempDir directory;
  const CudaJit jit({.arch = "sm_80", .cache_dir = directory / "cache"});
  jit.machine_code(variant("1"));
  EXPECT_FALSE(jit.machine_code(variant("2")).from_cache);
  const CudaJit other({.arch = "sm_89", .cache_dir = directory / "cache"});
  EXPECT_FALSE(other.machine_code(variant("1")).from_cache);
  EXPECT_TRUE(jit.machine_code(variant("1")).from_cache);
}

TEST(CudaJit, ADamagedEntryIsCompiledAgainAndReplaced) {
  SKIP_WITHOUT_NVRTC();
  const TempDir directory;
  const CudaJit jit({.arch = "sm_80", .cache_dir = directory / "cache"});
  const std::string whole = jit.machine_code(kIota).cubin;
  for (const auto& item : fs::directory_iterator(directory / "cache"))
    fs::resize_file(item.path(), fs::file_size(item.path()) / 2);
  const MachineCode again = jit.machine_code(kIota);
  EXPECT_FALSE(again.from_cache);
  EXPECT_EQ(again.cubin, whole);
  EXPECT_TRUE(jit.machine_code(kIota).from_cache);
}

TEST(CudaJit, TextThatDoesNotCompileIsAnErrorWithTheLog) {
  SKIP_WITHOUT_NVRTC();
  const TempDir directory;
  const CudaJit jit({.arch = "sm_80", .cache_dir = directory / "cache"});
  const CudaKernel broken = {"iota.cu", "iota", {{"blockIdx", "no_such_name"}}};
  EXPECT_ERROR(jit.machine_code(broken), ErrorKind::internal, "iota.cu:iota blockIdx=no_such_name");
  EXPECT_ERROR(jit.machine_code(broken), ErrorKind::internal, "iota.cu(9): error");
  EXPECT_EQ(cache_size(directory / "cache").count, 0);
}

TEST(CudaJit, AnArchThatTheCompilerDoesNotKnowIsUnsupported) {
  SKIP_WITHOUT_NVRTC();
  const CudaJit jit({.arch = "sm_999a", .cache_dir = "off"});
  EXPECT_ERROR(jit.machine_code(kIota), ErrorKind::unsupported, "sm_999a");
}

// The named headers must win, or the cache would hold what its key does not describe.
TEST(CudaJit, HeadersInTheWorkingDirectoryAreNotSeen) {
  SKIP_WITHOUT_NVRTC();
  const TempDir directory;
  write_text(directory / "params.h", "#error the wrong header\n");
  const int status = in_child([&] {
    if (chdir(directory.path().c_str()) != 0) return 2;
    return is_machine_code(CudaJit({.arch = "sm_80", .cache_dir = "off"}).machine_code(kIota)) ? 0
                                                                                               : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(CudaJit, SeveralKernelsKeepTheirOrderAndEqualOnesAreCompiledOnce) {
  SKIP_WITHOUT_NVRTC();
  const TempDir directory;
  const CudaJit jit({.arch = "sm_80", .cache_dir = directory / "cache"});
  const std::vector<CudaKernel> kernels = {variant("1"), variant("2"), variant("1"), variant("3")};
  const std::vector<MachineCode> codes = jit.machine_codes(kernels);
  ASSERT_EQ(codes.size(), kernels.size());
  for (size_t i = 0; i < codes.size(); ++i)
    EXPECT_EQ(codes[i].cubin, jit.machine_code(kernels[i]).cubin) << i;
  EXPECT_EQ(std::distance(fs::directory_iterator(directory / "cache"), {}), 3);
  EXPECT_TRUE(jit.machine_codes({}).empty());
}

TEST(CudaJit, OneOfSeveralThatDoesNotCompileIsNamed) {
  SKIP_WITHOUT_NVRTC();
  const CudaJit jit({.arch = "sm_80", .cache_dir = "off"});
  const std::vector<CudaKernel> kernels = {
      variant("1"), {"iota.cu", "iota", {{"void", "no_such_type"}}}, variant("2")};
  EXPECT_ERROR(jit.machine_codes(kernels), ErrorKind::internal, "void=no_such_type");
}

TEST(CudaJit, DumpsWhatItCompiles) {
  SKIP_WITHOUT_NVRTC();
  const TempDir directory;
  const JitOptions options = {
      .arch = "sm_80", .cache_dir = directory / "cache", .dump_dir = directory / "a/dump"};
  CudaJit({.arch = "sm_80", .cache_dir = directory / "cache"}).machine_code(variant("7"));
  const MachineCode code = CudaJit(options).machine_code(variant("7"));
  EXPECT_TRUE(code.from_cache);
  const fs::path stem = directory / "a/dump/iota-VARIANT_7-sm_80";
  EXPECT_EQ(read_text(stem.string() + ".cu"), kernel_source(variant("7")));
  EXPECT_EQ(read_text(stem.string() + ".cubin"), code.cubin);
  EXPECT_TRUE(contains(read_text(stem.string() + ".ptx"), ".entry iota("));
  EXPECT_TRUE(contains(read_text(directory / "a/dump/params.h"), "struct IotaParams"));
  const bool can_disassemble = !cuda_tool("cuobjdump").empty() || !cuda_tool("nvdisasm").empty();
  EXPECT_EQ(fs::exists(stem.string() + ".sass"), can_disassemble);
  EXPECT_EQ(contains(read_text(stem.string() + ".sass"), "EXIT"), can_disassemble);
}

TEST(CudaJit, ADumpThatCannotBeWrittenIsAnError) {
  const TempDir directory;
  write_text(directory / "file", "");
  EXPECT_ERROR(CudaJit({.cache_dir = "off", .dump_dir = directory / "file/dump"}), ErrorKind::usage,
               "--dump-kernels");
}

TEST(Child, DISABLED_CompilesTwice) {
  const MachineCode first = CudaJit({.arch = "sm_80"}).machine_code(kIota);
  const MachineCode second = CudaJit({.arch = "sm_80"}).machine_code(variant("1"));
  EXPECT_TRUE(is_machine_code(first) && is_machine_code(second));
  EXPECT_FALSE(first.from_cache || second.from_cache);
}

TEST(Child, DISABLED_HasOnlyTheCache) {
  EXPECT_EQ(nvrtc_version(), "");
  const CudaJit jit({.arch = "sm_80"});
  EXPECT_TRUE(jit.machine_code(kIota).from_cache);
  EXPECT_ERROR(jit.machine_code(variant("never compiled")), ErrorKind::unsupported,
               "NVRTC, the compiler of CUDA kernels, was not found");
}

struct BadHome {
  const char* name;
  std::map<std::string, std::string> environment;
  const char* warning;
};

class BadCache : public ::testing::TestWithParam<BadHome> {};

TEST_P(BadCache, IsOneWarningAndTheRunGoesOn) {
  SKIP_WITHOUT_NVRTC();
  const ChildResult child = run_child("CompilesTwice", GetParam().environment);
  EXPECT_EQ(child.exit_code, 0) << child.out << child.err;
  EXPECT_TRUE(contains(child.err, GetParam().warning)) << child.err;
  EXPECT_EQ(std::count(child.err.begin(), child.err.end(), '\n'), 1) << child.err;
}

INSTANTIATE_TEST_SUITE_P(
    All, BadCache,
    ::testing::Values(
        BadHome{"NoHome",
                {{"HOME", ""}, {"XDG_CACHE_HOME", ""}, {"RIDGELINE_CACHE_DIR", ""}},
                "neither HOME nor RIDGELINE_CACHE_DIR is set"},
        BadHome{"HomeIsAFile",
                {{"HOME", "/dev/null"}, {"XDG_CACHE_HOME", ""}, {"RIDGELINE_CACHE_DIR", ""}},
                "'/dev/null/.cache/ridgeline' is not used: Not a directory"},
        BadHome{"ReadOnly", {{"RIDGELINE_CACHE_DIR", "/proc/ridgeline"}}, "'/proc/ridgeline'"}),
    [](const auto& bad) { return bad.param.name; });

TEST(CudaJit, ACacheServesWhereThereIsNoCompiler) {
  SKIP_WITHOUT_NVRTC();
  const TempDir directory;
  CudaJit({.arch = "sm_80", .cache_dir = directory / "cache"}).machine_code(kIota);
  const ChildResult child = run_child(
      "HasOnlyTheCache",
      {{"RIDGELINE_CUDA_LIBRARIES", "none"}, {"RIDGELINE_CACHE_DIR", directory / "cache"}});
  EXPECT_EQ(child.exit_code, 0) << child.out << child.err;
}

TEST(JitCacheDirectory, FollowsItsVariablesInOrder) {
  const int status = in_child([] {
    setenv("HOME", "/nowhere", 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("RIDGELINE_CACHE_DIR");
    if (default_jit_cache() != "/nowhere/.cache/ridgeline") return 1;
    setenv("XDG_CACHE_HOME", "not/absolute", 1);
    if (default_jit_cache() != "/nowhere/.cache/ridgeline") return 2;
    setenv("XDG_CACHE_HOME", "/cache", 1);
    if (default_jit_cache() != "/cache/ridgeline") return 3;
    setenv("RIDGELINE_CACHE_DIR", "/own", 1);
    return default_jit_cache() == "/own" ? 0 : 4;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ridgeline
