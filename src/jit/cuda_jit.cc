#include "jit/cuda_jit.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/machine_limits.h"
#include "base/sha256.h"
#include "jit/disk_cache.h"
#include "jit/kernel_dump.h"
#include "jit/kernel_text.h"
#include "jit/nvrtc_api.h"
#include "jit/nvrtc_compile.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

// Of everything that decides the machine code but the compiler's version, which is appended:
// without a compiler, a cached result of any version serves.
std::string text_hash(const std::string& source, const std::string& arch) {
  Sha256 all;
  all.add_field(source);
  all.add_field(nvrtc::compiler_settings_hash());
  all.add_field(arch);
  return to_hex(all.finish());
}

std::string cache_key(const std::string& hash) {
  return fmt::format("{}-nvrtc{}", hash, nvrtc_version());
}

fs::path chosen_directory(const JitOptions& options) {
  const fs::path directory = options.cache_dir.empty() ? default_jit_cache() : options.cache_dir;
  if (directory.empty())
    warn_about_cache("neither HOME nor RIDGELINE_CACHE_DIR is set: kernels are not kept on disk");
  return directory == "off" ? fs::path() : directory;
}

std::string ptx_target(std::string arch) {  // "sm_90a" -> "compute_90a"
  return arch.starts_with("sm_") ? "compute_" + arch.substr(3) : arch;
}

// Calls work(0) ... work(count - 1) on several threads and throws what the first of them threw.
template <class Work>
void in_parallel(size_t count, const Work& work) {
  std::vector<std::exception_ptr> problems(count);
  std::atomic<size_t> next = 0;
  const auto worker = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        problems[i] = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> helpers;
  const size_t threads = std::min(count, static_cast<size_t>(std::max(1, available_threads())));
  try {
    while (helpers.size() + 1 < threads) helpers.emplace_back(worker);
  } catch (const std::system_error&) {  // no more threads to be had: fewer do it
  }
  worker();
  helpers.clear();
  for (const std::exception_ptr& problem : problems)
    if (problem) std::rethrow_exception(problem);
}

}  // namespace

fs::path default_jit_cache() {
  if (const std::string own = environment("RIDGELINE_CACHE_DIR"); !own.empty()) return own;
  // The specification of XDG_CACHE_HOME says to ignore relative paths.
  if (const fs::path xdg = environment("XDG_CACHE_HOME"); xdg.is_absolute())
    return xdg / "ridgeline";
  if (const fs::path home = environment("HOME"); home.is_absolute())
    return home / ".cache/ridgeline";
  return {};
}

std::string nvrtc_version() {
  static const std::string version = [] {
    int major = 0, minor = 0;
    const nvrtc::Api* api = nvrtc::api();
    return api && api->nvrtcVersion(&major, &minor) == nvrtc::kSuccess
               ? fmt::format("{}.{}", major, minor)
               : std::string();
  }();
  return version;
}

CudaJit::CudaJit(JitOptions options)
    : options_(std::move(options)),
      cache_(std::make_shared<DiskCache>(chosen_directory(options_))) {
  if (!options_.dump_dir.empty()) prepare_dump(options_.dump_dir);
}

std::optional<MachineCode> CudaJit::from_cache(const std::string& hash) const {
  std::optional<CacheEntry> entry =
      nvrtc::api() ? cache_->read(cache_key(hash)) : cache_->read_newest(hash + "-nvrtc");
  if (!entry) return std::nullopt;
  return MachineCode{
      .cubin = std::move(entry->code), .log = std::move(entry->log), .from_cache = true};
}

MachineCode CudaJit::get(const CudaKernel& kernel) const {
  const double start = monotonic_s();
  std::string source = kernel_source(kernel);
  if (options_.rewrite) source = options_.rewrite(kernel.entry, source);
  const std::string hash = text_hash(source, options_.arch);
  std::optional<MachineCode> code = from_cache(hash);
  if (!code) {
    nvrtc::Compiled compiled =
        nvrtc::compile({.source = source, .name = kernel.file, .target = options_.arch});
    code = MachineCode{.cubin = std::move(compiled.code), .log = std::move(compiled.log)};
    code->seconds = monotonic_s() - start;
    cache_->write(cache_key(hash), {.code = code->cubin, .log = code->log});
  }
  if (code->from_cache) code->seconds = monotonic_s() - start;
  if (!options_.dump_dir.empty()) {
    std::string ptx;
    if (nvrtc::api())
      ptx = nvrtc::compile(
                {.source = source, .name = kernel.file, .target = ptx_target(options_.arch)})
                .code;
    dump_kernel({.directory = options_.dump_dir,
                 .name = kernel_file_name(kernel, options_.arch),
                 .source = source,
                 .ptx = ptx,
                 .cubin = code->cubin});
  }
  return std::move(*code);
}

MachineCode CudaJit::machine_code(const CudaKernel& kernel) const {
  try {
    return get(kernel);
  } catch (const Error& error) {
    throw error.at("kernel " + kernel_key(kernel));
  }
}

std::vector<MachineCode> CudaJit::machine_codes(std::span<const CudaKernel> kernels) const {
  // Each distinct kernel once; `which` says which of them a wanted one is.
  std::vector<const CudaKernel*> distinct;
  std::vector<size_t> which;
  for (const CudaKernel& kernel : kernels) {
    const auto same = [&](const CudaKernel* other) { return *other == kernel; };
    const auto at = std::find_if(distinct.begin(), distinct.end(), same);
    which.push_back(static_cast<size_t>(at - distinct.begin()));
    if (at == distinct.end()) distinct.push_back(&kernel);
  }
  std::vector<MachineCode> found(distinct.size());
  std::mutex telling;
  size_t ready = 0;
  const auto tell = [&](size_t more) {
    const std::lock_guard lock(telling);
    ready += more;
    if (options_.compiled) options_.compiled(ready, distinct.size());
  };
  tell(0);
  in_parallel(distinct.size(), [&](size_t i) {
    found[i] = machine_code(*distinct[i]);
    tell(1);
  });
  std::vector<MachineCode> codes;
  for (size_t i : which) codes.push_back(found[i]);
  return codes;
}

}  // namespace ridgeline
