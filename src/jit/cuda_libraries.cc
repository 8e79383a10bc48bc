#include "jit/cuda_libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <mutex>

#include "base/environment.h"
#include "base/error.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

enum class Origin { driver, toolkit };

struct Spec {
  CudaLibraryFacts facts;
  Origin origin;
  std::vector<int> majors;   // of the soname, preferred first
  const char* known_symbol;  // tells the path of a library that the loader found
  std::string how_to_get;
  bool is_listed = true;  // else only outside profilers, or several GPUs, ask for it
};

const std::vector<Spec>& specs() {
  static const std::vector<Spec> rows = {
      {{"cuda", "runs everything on the GPU"},
       Origin::driver,
       {1},
       "cuInit",
       "install NVIDIA's driver (Debian: apt install nvidia-driver; Ubuntu: ubuntu-drivers "
       "install; "
       "in a container: start it with --gpus all)"},
      {{"nvrtc", "compiles the kernels"},
       Origin::toolkit,
       {13, 12},
       "nvrtcVersion",
       "pip install nvidia-cuda-nvrtc (nvidia-cuda-nvrtc-cu12 for a driver of CUDA 12), or from "
       "NVIDIA's repository: apt install cuda-nvrtc-13-0"},
      {{"cublasLt", "multiplies matrices"},
       Origin::toolkit,
       {13, 12},
       "cublasLtGetVersion",
       "pip install nvidia-cublas (nvidia-cublas-cu12 for a driver of CUDA 12), or from NVIDIA's "
       "repository: apt install libcublas-13-0"},
      {{"cupti", "traces kernels for profiles"},
       Origin::toolkit,
       {13, 12},
       "cuptiGetVersion",
       "pip install nvidia-cuda-cupti (nvidia-cuda-cupti-cu12 for a driver of CUDA 12), or from "
       "NVIDIA's repository: apt install cuda-cupti-13-0"},
      {{"nvidia-ml", "reads clocks, power and temperature"},
       Origin::driver,
       {1},
       "nvmlInit_v2",
       "it comes with NVIDIA's driver (in a container: "
       "NVIDIA_DRIVER_CAPABILITIES=compute,utility)"},
      {{"nvtx3interop", "names ranges for outside profilers"},
       Origin::toolkit,
       {1},
       "nvtxRangePushA",
       "pip install nvidia-nvtx",
       false},
      {{"nvToolsExt", "names ranges for outside profilers"},
       Origin::toolkit,
       {1},
       "nvtxRangePushA",
       "pip install nvidia-nvtx (nvidia-nvtx-cu12 for CUDA 12)",
       false},
      {{"nccl", "sums over several GPUs"},
       Origin::toolkit,
       {2},
       "ncclGetVersion",
       "pip install nvidia-nccl-cu13 (nvidia-nccl-cu12 for a driver of CUDA 12), or from NVIDIA's "
       "repository: apt install libnccl2",
       false},
  };
  return rows;
}

const Spec& spec_of(std::string_view stem) {
  for (const Spec& spec : specs())
    if (spec.facts.stem == stem) return spec;
  throw Error(ErrorKind::internal, fmt::format("no CUDA library is called '{}'", stem));
}

bool directory_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// The subdirectories of `parent` whose name starts with `prefix`, the highest name first, so that
// cuda-13.0 comes before cuda-12.8 and python3.12 before python3.9.
std::vector<fs::path> subdirectories(const fs::path& parent, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator at(parent, ignored), end; !ignored && at != end;
       at.increment(ignored))
    if (at->path().filename().string().starts_with(prefix) && directory_exists(at->path()))
      found.push_back(at->path());
  const auto shorter_is_older = [](const fs::path& a, const fs::path& b) {
    const std::string left = a.filename(), right = b.filename();
    return left.size() != right.size() ? left.size() > right.size() : left > right;
  };
  std::sort(found.begin(), found.end(), shorter_is_older);
  return found;
}

void append(std::vector<fs::path>& to, std::vector<fs::path> more) {
  to.insert(to.end(), more.begin(), more.end());
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Knows the places of one machine.
class Places {
 public:
  explicit Places(const CudaSearch& search) : search_(search) {}

  // Toolkits that the user named, then those in their usual places.
  std::vector<fs::path> toolkits() const {
    std::vector<fs::path> found;
    for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
      if (const std::string value = search_.variable(name); !value.empty()) found.push_back(value);
    found.push_back(in_root("usr/local/cuda"));
    append(found, subdirectories(in_root("usr/local"), "cuda-"));
    found.push_back(in_root("opt/cuda"));
    return found;
  }

  std::vector<fs::path> site_packages() const {
    std::vector<fs::path> found;
    for (const fs::path& prefix : python_prefixes())
      for (const fs::path& python : subdirectories(prefix / "lib", "python3"))
        for (const char* kind : {"site-packages", "dist-packages"})
          if (directory_exists(python / kind)) found.push_back(python / kind);
    return found;
  }

  std::vector<fs::path> library_directories(Origin origin) const {
    std::vector<fs::path> found;
    if (origin == Origin::driver) {
      for (const char* place : kDriverPlaces) found.push_back(in_root(place));
      return found;
    }
    for (const fs::path& toolkit : toolkits())
      for (const char* place : {"lib64", "lib", "targets/x86_64-linux/lib", "extras/CUPTI/lib64"})
        found.push_back(toolkit / place);
    if (const std::string conda = search_.variable("CONDA_PREFIX"); !conda.empty())
      append(found, {fs::path(conda) / "lib", fs::path(conda) / "targets/x86_64-linux/lib"});
    for (const fs::path& site : site_packages())
      for (const fs::path& wheel : subdirectories(site / "nvidia", ""))
        found.push_back(wheel / "lib");
    return found;
  }

  std::vector<fs::path> tool_directories() const {
    std::vector<fs::path> found;
    for (const std::string& entry : split(search_.variable("PATH"), ':')) found.push_back(entry);
    for (const fs::path& toolkit : toolkits()) found.push_back(toolkit / "bin");
    for (const fs::path& site : site_packages()) {
      for (const fs::path& wheel : subdirectories(site / "nvidia", ""))
        found.push_back(wheel / "bin");
      found.push_back(site / "triton/backends/nvidia/bin");
    }
    return found;
  }

 private:
  // Where drivers lie that the loader does not know of: WSL, GPU containers, NixOS.
  static constexpr std::array kDriverPlaces = {"usr/lib/x86_64-linux-gnu", "usr/lib64",
                                               "usr/lib/wsl/lib", "usr/local/nvidia/lib64",
                                               "run/opengl-driver/lib"};

  fs::path in_root(const char* place) const { return search_.root / place; }

  // Python is never run: the virtual environment, then the prefix of python3 on PATH both as it is
  // written (a virtual environment) and with links followed (the installation behind it).
  std::vector<fs::path> python_prefixes() const {
    std::vector<fs::path> found;
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
      if (const std::string value = search_.variable(name); !value.empty()) found.push_back(value);
    for (const std::string& entry : split(search_.variable("PATH"), ':')) {
      const fs::path python = fs::path(entry) / "python3";
      if (access(python.c_str(), X_OK) != 0) continue;
      std::error_code ignored;
      found.push_back(fs::path(entry).lexically_normal().parent_path());
      found.push_back(fs::canonical(python, ignored).parent_path().parent_path());
      break;
    }
    const std::string home = search_.variable("HOME");
    const std::string pyenv = search_.variable("PYENV_ROOT");
    if (!pyenv.empty() || !home.empty())
      append(found,
             subdirectories(
                 (pyenv.empty() ? fs::path(home) / ".pyenv" : fs::path(pyenv)) / "versions", ""));
    if (!home.empty()) found.push_back(fs::path(home) / ".local");
    append(found, {in_root("usr/local"), in_root("usr")});
    return found;
  }

  const CudaSearch& search_;
};

// NVRTC opens this one by its plain name, which finds nothing when NVRTC is in a wheel.
void open_nvrtc_builtins(const fs::path& nvrtc) {
  std::error_code ignored;
  for (fs::directory_iterator at(nvrtc.parent_path(), ignored), end; !ignored && at != end;
       at.increment(ignored))
    if (at->path().filename().string().starts_with("libnvrtc-builtins.so."))
      dlopen(at->path().c_str(), RTLD_NOW | RTLD_LOCAL);
}

// Tries one file; a file that is there and does not open is worth a line of its own.
bool open_file(CudaLibrary& library, const fs::path& file, std::string_view stem) {
  if (!is_file(file)) return false;
  if (stem == "nvrtc") open_nvrtc_builtins(file);
  library.handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library.handle) {
    library.tried.push_back(fmt::format("{} (does not open: {})", file.string(), dlerror()));
    return false;
  }
  library.path = file;
  return true;
}

bool open_by_name(CudaLibrary& library, const std::string& soname, int flags,
                  const char* any_symbol_of) {
  library.handle = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
  if (!library.handle) return false;
  library.path = soname;
  Dl_info info = {};
  if (void* symbol = dlsym(library.handle, any_symbol_of);
      symbol && dladdr(symbol, &info) && info.dli_fname)
    library.path = info.dli_fname;
  return true;
}

// Fills in `library` from the first place that has one of `majors`.
bool open_one_of(CudaLibrary& library, const Spec& spec, const std::vector<int>& majors,
                 const std::vector<fs::path>& directories, bool system_loader) {
  std::vector<std::string> sonames;
  for (int major : majors) sonames.push_back(fmt::format("lib{}.so.{}", spec.facts.stem, major));
  const auto by_name = [&](int flags) {
    return system_loader && std::any_of(sonames.begin(), sonames.end(), [&](const auto& soname) {
             return open_by_name(library, soname, flags, spec.known_symbol);
           });
  };
  // One that is already in the process (beside PyTorch, say) must not be joined by a second.
  if (by_name(RTLD_NOLOAD)) return true;
  // The loader knows which driver belongs to the kernel's module.
  if (spec.origin == Origin::driver && by_name(0)) return true;
  for (const fs::path& directory : directories)
    for (const std::string& soname : sonames)
      if (open_file(library, directory / soname, spec.facts.stem)) return true;
  return spec.origin != Origin::driver && by_name(0);
}

CudaSearch this_machine() {
  return {.variable = environment};
}

// 12 for a driver that serves CUDA 12.x. Asking needs no GPU and no cuInit.
int driver_major() {
  int version = 0;
  const auto get_version =
      reinterpret_cast<int (*)(int*)>(cuda_library("cuda").symbol("cuDriverGetVersion"));
  return get_version && get_version(&version) == 0 ? version / 1000 : 0;
}

}  // namespace

void* CudaLibrary::symbol(const char* name) const {
  return handle ? dlsym(handle, name) : nullptr;
}

std::span<const CudaLibraryFacts> cuda_library_list() {
  static const std::vector<CudaLibraryFacts> list = [] {
    std::vector<CudaLibraryFacts> facts;
    for (const Spec& spec : specs())
      if (spec.is_listed) facts.push_back(spec.facts);
    return facts;
  }();
  return list;
}

CudaLibrary find_cuda_library(std::string_view stem, const CudaSearch& search) {
  const Spec& spec = spec_of(stem);
  CudaLibrary library;
  library.how_to_get = spec.how_to_get;
  const std::string only = search.variable("RIDGELINE_CUDA_LIBRARIES");
  if (only == "none") {
    library.tried = {"nothing, as RIDGELINE_CUDA_LIBRARIES=none asks"};
    return library;
  }
  const bool anywhere = only.empty();
  const std::vector<fs::path> directories =
      anywhere ? Places(search).library_directories(spec.origin) : std::vector<fs::path>{only};
  // A library newer than the driver opens and then fails, so that one comes last.
  std::vector<int> served, too_new;
  for (int major : spec.majors) {
    const bool fits =
        spec.origin == Origin::driver || search.driver_major == 0 || major <= search.driver_major;
    (fits ? served : too_new).push_back(major);
  }
  for (const std::vector<int>& majors : {served, too_new})
    if (!majors.empty() &&
        open_one_of(library, spec, majors, directories, anywhere && search.system_loader))
      return library;
  if (anywhere && search.system_loader)
    library.tried.push_back(fmt::format("the system's loader for lib{}.so.{}", stem,
                                        fmt::join(spec.majors, " and .so.")));
  for (const fs::path& directory : directories)
    if (directory_exists(directory)) library.tried.push_back(directory.string());
  return library;
}

const CudaLibrary& cuda_library(std::string_view stem) {
  // Each has a lock of its own: looking for one may ask for another.
  struct Opened {
    std::once_flag once;
    CudaLibrary library;
  };
  static std::deque<Opened> all(specs().size());
  const Spec& spec = spec_of(stem);
  Opened& opened = all[static_cast<size_t>(&spec - specs().data())];
  std::call_once(opened.once, [&] {
    CudaSearch search = this_machine();
    if (spec.origin != Origin::driver) search.driver_major = driver_major();
    opened.library = find_cuda_library(stem, search);
  });
  return opened.library;
}

fs::path find_cuda_tool(std::string_view name, const CudaSearch& search) {
  for (const fs::path& directory : Places(search).tool_directories()) {
    const fs::path tool = directory / name;
    if (is_file(tool) && access(tool.c_str(), X_OK) == 0) return tool;
  }
  return {};
}

fs::path cuda_tool(std::string_view name) {
  return find_cuda_tool(name, this_machine());
}

std::string tried_text(const CudaLibrary& library) {
  constexpr size_t kShown = 4;
  const size_t shown = std::min(kShown, library.tried.size());
  const std::string rest = library.tried.size() > kShown
                               ? fmt::format(" and {} more", library.tried.size() - kShown)
                               : "";
  return fmt::format("{}{}", fmt::join(library.tried.begin(), library.tried.begin() + shown, ", "),
                     rest);
}

}  // namespace ridgeline
