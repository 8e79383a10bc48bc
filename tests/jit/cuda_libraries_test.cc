#include "jit/cuda_libraries.h"

#include "jit/run_child.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

// A machine in a directory: libraries are put where they would lie on a real one.
class FakeMachine {
 public:
  fs::path add(const fs::path& path, const char* library = FAKE_LIBRARY) {
    const fs::path file = directory_ / path;
    fs::create_directories(file.parent_path());
    fs::copy_file(library, file);
    return file;
  }

  fs::path operator/(const fs::path& path) const { return directory_ / path; }
  void set(const std::string& name, const fs::path& value) { variables_[name] = value; }
  void set_driver_major(int major) { driver_major_ = major; }

  CudaLibrary find(const std::string& stem) const { return find_cuda_library(stem, search()); }
  CudaSearch search() const {
    return {.variable =
                [this](const char* name) {
                  const auto at = variables_.find(name);
                  return at == variables_.end() ? std::string() : at->second;
                },
            .root = directory_.path(),
            .system_loader = false,
            .driver_major = driver_major_};
  }

 private:
  TempDir directory_;
  std::map<std::string, std::string> variables_;
  int driver_major_ = 0;
};

TEST(CudaLibraries, AnEmptyMachineHasNoneAndSaysHowToGetThem) {
  const FakeMachine machine;
  for (const CudaLibraryFacts& facts : cuda_library_list()) {
    const CudaLibrary library = machine.find(std::string(facts.stem));
    EXPECT_FALSE(library) << facts.stem;
    EXPECT_EQ(library.path, "");
    EXPECT_NE(library.how_to_get, "") << facts.stem;
    EXPECT_EQ(library.symbol("cuInit"), nullptr);
  }
}

struct Place {
  const char* variable;  // null: found without
  const char* value;
  const char* directory;
};

class CudaLibrariesPlace : public ::testing::TestWithParam<Place> {};

TEST_P(CudaLibrariesPlace, IsSearched) {
  FakeMachine machine;
  const fs::path file = machine.add(fs::path(GetParam().directory) / "libnvrtc.so.12");
  if (GetParam().variable) {
    EXPECT_FALSE(machine.find("nvrtc"));
    machine.set(GetParam().variable, machine / GetParam().value);
  }
  const CudaLibrary library = machine.find("nvrtc");
  ASSERT_TRUE(library) << ::testing::PrintToString(library.tried);
  EXPECT_EQ(library.path, file);
  EXPECT_NE(library.symbol("ridgeline_fake_library"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(
    All, CudaLibrariesPlace,
    ::testing::Values(
        Place{"CUDA_HOME", "toolkit", "toolkit/lib64"},
        Place{"CUDA_PATH", "toolkit", "toolkit/targets/x86_64-linux/lib"},
        Place{nullptr, "", "usr/local/cuda/lib64"}, Place{nullptr, "", "usr/local/cuda-12.8/lib64"},
        Place{"VIRTUAL_ENV", "venv", "venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib"},
        Place{"CONDA_PREFIX", "conda", "conda/lib"},
        Place{"CONDA_PREFIX", "conda", "conda/lib/python3.9/site-packages/nvidia/cu13/lib"},
        Place{"HOME", "home", "home/.local/lib/python3.11/site-packages/nvidia/cu13/lib"},
        Place{"HOME", "home",
              "home/.pyenv/versions/3.11.7/lib/python3.11/site-packages/nvidia/cu13/lib"},
        Place{nullptr, "", "usr/lib/python3/dist-packages/nvidia/cu13/lib"},
        Place{nullptr, "", "usr/local/lib/python3.11/dist-packages/nvidia/cu13/lib"}));

TEST(CudaLibraries, ThePythonOnPathBringsItsWheels) {
  FakeMachine machine;
  const fs::path file =
      machine.add("venv/lib/python3.11/site-packages/nvidia/cublas/lib/libcublasLt.so.12");
  write_text(machine / "venv/bin/python3", "");
  fs::permissions(machine / "venv/bin/python3", fs::perms::owner_all);
  EXPECT_FALSE(machine.find("cublasLt"));
  machine.set("PATH", (machine / "empty").string() + ":" + (machine / "venv/bin").string());
  EXPECT_EQ(machine.find("cublasLt").path, file);
}

TEST(CudaLibraries, TheNamedToolkitComesBeforeTheUsualOne) {
  FakeMachine machine;
  machine.add("usr/local/cuda/lib64/libnvrtc.so.13");
  const fs::path own = machine.add("own/lib64/libnvrtc.so.12");
  machine.set("CUDA_HOME", machine / "own");
  EXPECT_EQ(machine.find("nvrtc").path, own);
}

TEST(CudaLibraries, TheNewerToolkitComesFirst) {
  FakeMachine machine;
  machine.add("usr/local/cuda-9.2/lib64/libnvrtc.so.12");
  machine.add("usr/local/cuda-12.8/lib64/libnvrtc.so.12");
  const fs::path newest = machine.add("usr/local/cuda-13.0/lib64/libnvrtc.so.13");
  EXPECT_EQ(machine.find("nvrtc").path, newest);
}

// Machine code and calls of CUDA 13 fail on a driver that serves 12.
TEST(CudaLibraries, ALibraryNewerThanTheDriverIsTheLastChoice) {
  FakeMachine machine;
  const fs::path newer = machine.add("usr/local/cuda/lib64/libnvrtc.so.13");
  machine.set_driver_major(12);
  EXPECT_EQ(machine.find("nvrtc").path, newer);
  const fs::path fitting =
      machine.add("usr/local/lib/python3.11/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  EXPECT_EQ(machine.find("nvrtc").path, fitting);
}

TEST(CudaLibraries, ToolkitStubsAreNoDriver) {
  FakeMachine machine;
  machine.add("usr/local/cuda/lib64/stubs/libcuda.so.1");
  machine.add("usr/local/cuda/lib64/libcuda.so.1");
  EXPECT_FALSE(machine.find("cuda"));
  const fs::path driver = machine.add("usr/lib/x86_64-linux-gnu/libcuda.so.1");
  EXPECT_EQ(machine.find("cuda").path, driver);
}

TEST(CudaLibraries, AFileThatDoesNotOpenIsNamedAndTheNextPlaceIsTried) {
  FakeMachine machine;
  const fs::path broken = machine / "usr/local/cuda/lib64/libnvrtc.so.13";
  write_text(broken, "no library");
  const CudaLibrary none = machine.find("nvrtc");
  EXPECT_FALSE(none);
  ASSERT_FALSE(none.tried.empty());
  EXPECT_TRUE(contains(none.tried[0], broken.string() + " (does not open")) << none.tried[0];
  const fs::path whole = machine.add("usr/local/cuda-12.8/lib64/libnvrtc.so.12");
  EXPECT_EQ(machine.find("nvrtc").path, whole);
}

TEST(CudaLibraries, TheVariableLimitsTheSearchToItsDirectory) {
  FakeMachine machine;
  machine.add("usr/local/cuda/lib64/libnvrtc.so.13");
  machine.set("RIDGELINE_CUDA_LIBRARIES", machine / "only");
  EXPECT_FALSE(machine.find("nvrtc"));
  const fs::path only = machine.add("only/libnvrtc.so.13");
  EXPECT_EQ(machine.find("nvrtc").path, only);
}

TEST(CudaLibraries, TheVariableCanSwitchAllOff) {
  FakeMachine machine;
  machine.add("usr/local/cuda/lib64/libnvrtc.so.13");
  machine.set("RIDGELINE_CUDA_LIBRARIES", "none");
  const CudaLibrary library = machine.find("nvrtc");
  EXPECT_FALSE(library);
  EXPECT_TRUE(contains(tried_text(library), "RIDGELINE_CUDA_LIBRARIES=none"));
}

TEST(CudaLibraries, AnUnknownNameIsAnError) {
  EXPECT_ERROR(cuda_library("cufft"), ErrorKind::internal, "cufft");
}

TEST(CudaLibraries, ToolsAreFoundInToolkitsAndWheelsButOnlyIfTheyCanRun) {
  FakeMachine machine;
  const fs::path tool = machine.add("usr/local/cuda/bin/cuobjdump");
  fs::permissions(tool, fs::perms::owner_read);
  EXPECT_EQ(find_cuda_tool("cuobjdump", machine.search()), fs::path());
  fs::permissions(tool, fs::perms::owner_all);
  EXPECT_EQ(find_cuda_tool("cuobjdump", machine.search()), tool);
  EXPECT_EQ(find_cuda_tool("nvdisasm", machine.search()), fs::path());
}

}  // namespace
}  // namespace ridgeline
