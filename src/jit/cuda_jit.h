// Compiles CUDA text to machine code for one exact GPU with NVRTC, and caches it on disk.
//
//   CudaJit jit({.arch = "sm_90a"});
//   MachineCode code = jit.machine_code(launch.kernel);  // cuModuleLoadData(code.cubin)
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/compile_hook.h"
#include "kernels/cuda/launch.h"

namespace ridgeline {

class DiskCache;

struct JitOptions {
  std::string arch = "sm_80";
  std::filesystem::path cache_dir = {};  // empty: the user's own (default_jit_cache()); "off": none
  std::filesystem::path dump_dir = {};   // of source, PTX and SASS of every kernel; empty: none
  CompileHook compiled = {};             // for kernels that are requested together
  TextHook rewrite = {};                 // of every source; none: unchanged
};

struct MachineCode {
  std::string cubin;
  std::string log;  // the compiler's; has registers and spills if compiled here
  bool from_cache = false;
  double seconds = 0;  // to obtain it
};

// What ptxas reported for the entry; parsed from MachineCode::log.
struct KernelResources {
  int registers = 0;
  int spill_bytes = 0;  // stores and loads
  int stack_bytes = 0;
  int shared_bytes = 0;  // static
};
KernelResources kernel_resources(const std::string& log);

// The text that the compiler sees: constants as #defines, then the embedded file.
std::string kernel_source(const CudaKernel& kernel);
// Short and readable, unique per process: "flash_forward.cu:flash_forward HEAD_DIM=64 ...".
std::string kernel_key(const CudaKernel& kernel);

// Thread-safe.
class CudaJit {
 public:
  explicit CudaJit(JitOptions options);
  const std::string& arch() const { return options_.arch; }

  // Throws an unsupported error when there is neither a cached result nor NVRTC, an internal error
  // with the compiler's log when the text does not compile.
  MachineCode machine_code(const CudaKernel& kernel) const;
  // The same for several kernels, compiled in parallel.
  std::vector<MachineCode> machine_codes(std::span<const CudaKernel> kernels) const;

 private:
  std::optional<MachineCode> from_cache(const std::string& text_hash) const;
  MachineCode get(const CudaKernel& kernel) const;

  JitOptions options_;
  std::shared_ptr<const DiskCache> cache_;
};

// $RIDGELINE_CACHE_DIR, $XDG_CACHE_HOME/ridgeline or ~/.cache/ridgeline. "off": set by the
// variable. Empty: there is no home directory.
std::filesystem::path default_jit_cache();

// "13.0"; empty: no NVRTC was found.
std::string nvrtc_version();

}  // namespace ridgeline
