#include "jit/nvrtc_compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "jit/cuda_jit.h"
#include "jit/cuda_libraries.h"
#include "jit/nvrtc_api.h"
#include "kernels/cuda/embedded.h"

namespace ridgeline::nvrtc {
namespace {

// No fast math: a kernel that wants an approximate instruction names it.
constexpr const char* kOptions[] = {
    "--std=c++20",
    "-default-device",     // params.h has no __device__
    "--ptxas-options=-v",  // registers and spills, into the log
};

// From 12.9 on, NVRTC has a cache of its own beside the driver's. It would answer without the log,
// and make a first compilation look faster than it is.
std::vector<const char*> options_of(const Api& api) {
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  int major = 0, minor = 0;
  if (api.nvrtcVersion(&major, &minor) == kSuccess && (major > 12 || (major == 12 && minor >= 9)))
    options.push_back("--no-cache");
  return options;
}

struct Headers {
  std::vector<const char*> texts, names;
};

bool is_header(std::string_view name) {
  return !name.ends_with(".cu");
}

// The texts end with a null character: they are string literals.
const Headers& headers() {
  static const Headers all = [] {
    Headers found;
    for (const EmbeddedText& row : cuda_texts()) {
      if (!is_header(row.name)) continue;
      found.names.push_back(row.name.data());
      found.texts.push_back(row.text.data());
    }
    return found;
  }();
  return all;
}

class OwnedProgram {
 public:
  explicit OwnedProgram(const Api& api) : api_(api) {}
  ~OwnedProgram() {
    if (program_) api_.nvrtcDestroyProgram(&program_);
  }
  OwnedProgram(const OwnedProgram&) = delete;
  OwnedProgram& operator=(const OwnedProgram&) = delete;
  Program get() const { return program_; }
  Program* address() { return &program_; }

 private:
  const Api& api_;
  Program program_ = nullptr;
};

using SizeFunction = Result (*)(Program, size_t*);
using ReadFunction = Result (*)(Program, char*);

std::string read_result(Program program, SizeFunction size_of, ReadFunction read) {
  size_t size = 0;
  if (size_of(program, &size) != kSuccess || size == 0) return {};
  std::string bytes(size, '\0');
  if (read(program, bytes.data()) != kSuccess) return {};
  return bytes;
}

std::string without_end(std::string text) {  // logs and PTX come with a null character
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

int arch_number(const std::string& target) {
  const size_t digits = target.find_first_of("0123456789");
  return digits == target.npos ? 0 : std::atoi(target.c_str() + digits);
}

void require_target(const Api& api, const std::string& target) {
  int count = 0;
  if (api.nvrtcGetNumSupportedArchs(&count) != kSuccess || count <= 0) return;
  std::vector<int> known(static_cast<size_t>(count));
  if (api.nvrtcGetSupportedArchs(known.data()) != kSuccess) return;
  if (std::find(known.begin(), known.end(), arch_number(target)) != known.end()) return;
  throw Error(ErrorKind::unsupported,
              fmt::format("NVRTC {} at {} does not compile for {}; it knows {}", nvrtc_version(),
                          cuda_library("nvrtc").path, target, fmt::join(known, ", ")),
              "install an NVRTC that knows this GPU: " + cuda_library("nvrtc").how_to_get);
}

Error failed(const Api& api, const CompileRequest& request, Result result, const std::string& log) {
  if (request.users && result == kCompilation)
    return Error(ErrorKind::usage, fmt::format("{} does not compile:\n{}", request.name, log));
  const std::string what = fmt::format("{} for {} with NVRTC {} ({})", request.name, request.target,
                                       nvrtc_version(), api.nvrtcGetErrorString(result));
  if (result == kCompilation || result == kInvalidOption)
    return Error(ErrorKind::internal, fmt::format("cannot compile {}:\n{}", what, log),
                 "report this: a kernel of Ridgeline must compile");
  return Error(ErrorKind::environment, fmt::format("the compiler failed on {}: {}", what, log),
               fmt::format("check that {} is whole, with libnvrtc-builtins beside it, and that "
                           "memory is free",
                           cuda_library("nvrtc").path));
}

// Where the toolkit or the wheel that NVRTC belongs to keeps cuda_fp16.h and its like.
std::vector<std::string> toolkit_include_options() {
  namespace fs = std::filesystem;
  std::error_code problem;
  const fs::path library = fs::canonical(cuda_library("nvrtc").path, problem);
  if (problem) return {};
  std::vector<std::string> options;
  for (const char* beside : {"../include", "../../include", "../../cuda_runtime/include"}) {
    const fs::path folder = (library.parent_path() / beside).lexically_normal();
    if (fs::exists(folder / "cuda_fp16.h", problem))
      options.push_back("--include-path=" + folder.string());
  }
  return options;
}

}  // namespace

const std::string& compiler_settings_hash() {
  static const std::string hash = [] {
    Sha256 all;
    for (const char* option : kOptions) all.add_field(option);
    for (const EmbeddedText& row : cuda_texts()) {
      if (!is_header(row.name)) continue;
      all.add_field(row.name);
      all.add_field(row.text);
    }
    return to_hex(all.finish());
  }();
  return hash;
}

Compiled compile(const CompileRequest& request) {
  const Api& api = require_api();
  require_target(api, request.target);
  OwnedProgram program(api);
  const Headers& named = headers();
  const Result created = api.nvrtcCreateProgram(
      program.address(), request.source.c_str(), request.name.c_str(),
      static_cast<int>(named.texts.size()), named.texts.data(), named.names.data());
  if (created != kSuccess) throw failed(api, request, created, "the program was not created");
  const std::string target = "--gpu-architecture=" + request.target;
  std::vector<const char*> options = options_of(api);
  options.push_back(target.c_str());
  std::vector<std::string> includes;
  if (request.users) includes = toolkit_include_options();
  for (const std::string& include : includes) options.push_back(include.c_str());
  const Result result =
      api.nvrtcCompileProgram(program.get(), static_cast<int>(options.size()), options.data());
  Compiled compiled;
  compiled.log =
      without_end(read_result(program.get(), api.nvrtcGetProgramLogSize, api.nvrtcGetProgramLog));
  if (result != kSuccess) throw failed(api, request, result, compiled.log);
  const bool machine_code = request.target.starts_with("sm_");
  compiled.code =
      machine_code ? read_result(program.get(), api.nvrtcGetCUBINSize, api.nvrtcGetCUBIN)
                   : without_end(read_result(program.get(), api.nvrtcGetPTXSize, api.nvrtcGetPTX));
  if (compiled.code.empty()) throw failed(api, request, result, "it gave no code");
  return compiled;
}

}  // namespace ridgeline::nvrtc
