// Compiles generated C++ to functions of this process with the host's compiler, and caches them on
// disk.
//
//   HostCompiler compiler({});
//   std::vector<void*> functions = compiler.functions(preamble, {{"add", "extern \"C\" void
//   add..."}});
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/compile_hook.h"

namespace ridgeline {

class DiskCache;

struct HostCompilerOptions {
  std::filesystem::path cache_dir = {};  // empty: the user's own (default_jit_cache()); "off": none
  std::filesystem::path dump_dir = {};   // not empty: every source is written there, as <entry>.cc
  // Empty: $CXX, or the first of c++, g++ and clang++ on PATH.
  std::string compiler = {};
  CompileHook compiled = {};               // for kernels that were not on disk
  double limit_s = 600;                    // for all compilers of one call; then they are stopped
  std::function<bool()> interrupted = {};  // polled while they run; see Interrupted
  TextHook rewrite = {};  // of every source, and of kPreambleEntry; none: unchanged
};

inline constexpr const char* kPreambleEntry = "preamble";

struct HostSource {
  std::string entry;  // its extern "C" function; equal entries are equal texts
  std::string text;
};

// Thread-safe. Functions remain loaded for its lifetime.
class HostCompiler {
 public:
  explicit HostCompiler(HostCompilerOptions options);
  ~HostCompiler();

  // The functions of the sources. New ones are compiled together, by several processes in parallel.
  // Throws an unsupported error when there is neither a cached result nor a compiler that runs, an
  // internal error with the compiler's output when a text does not compile, Interrupted when
  // interrupted.
  std::vector<void*> functions(const std::string& preamble, std::span<const HostSource> sources);

  double seconds() const { return seconds_; }    // total run time of its compilers
  size_t compiled() const { return compiled_; }  // functions that were neither loaded nor on disk

 private:
  struct Library;

  std::vector<void*> find(const std::string& preamble, std::span<const HostSource> sources);
  void open_cache();
  void load(const std::string& code, std::span<const HostSource* const> sources);
  void compile(const std::filesystem::path& compiler, const std::string& settings,
               const std::string& preamble, std::span<const HostSource* const> sources);
  void load_cached(const std::string& settings, std::vector<const HostSource*>& wanted);

  HostCompilerOptions options_;
  std::shared_ptr<const DiskCache> cache_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Library>> libraries_;
  std::unordered_map<std::string, void*> functions_;  // by entry
  double seconds_ = 0;
  size_t compiled_ = 0;
};

// The compiler that would be used; empty: none was found.
std::filesystem::path find_host_compiler(const std::string& wanted = {});

}  // namespace ridgeline
