#include "jit/host_compiler.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <unordered_set>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/machine_limits.h"
#include "base/sha256.h"
#include "base/temporary.h"
#include "base/units.h"
#include "jit/cuda_jit.h"
#include "jit/disk_cache.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

// No contraction and no reassociation: a value has the same bits in whatever kernel it is computed.
constexpr std::string_view kFlags[] = {"-std=c++17",
                                       "-O3",
                                       "-march=native",
                                       "-shared",
                                       "-fPIC",
                                       "-ffp-contract=off",
                                       "-fopenmp-simd",
                                       "-fno-math-errno",
                                       "-fno-trapping-math",
                                       "-w"};

constexpr const char* kOtherCompiler = "try another compiler: CXX=g++";

Error none_found(const std::string& wanted) {
  const std::string named = wanted.empty() ? environment("CXX") : wanted;
  const std::string none = "no C++ compiler was found to compile fused kernels with";
  if (named.empty())
    return {ErrorKind::unsupported, none, "install g++ or clang++, or name one in CXX"};
  return {ErrorKind::unsupported,
          fmt::format("{}: {}'{}' is no program that can be run", none,
                      wanted.empty() ? "CXX is set, but " : "", named),
          "set CXX to a program, without flags, or unset it to take c++, g++ or clang++"};
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const fs::path& path, std::string_view text, const char* if_it_fails) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file)
    throw Error(ErrorKind::environment, fmt::format("cannot write '{}'", path.string()),
                if_it_fails);
}

// "-march=native" means something else on another processor.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string all;
  for (std::string line; std::getline(file, line) && !line.empty();)
    if (line.starts_with("model") || line.starts_with("flags") || line.starts_with("vendor"))
      all += line;
  return all;
}

// Everything but the text that decides the machine code. A compiler is told from another by its
// file, which needs no child process.
std::string settings_of(const fs::path& compiler) {
  Sha256 all;
  for (std::string_view flag : kFlags) all.add_field(flag);
  static const std::string cpu = processor();
  all.add_field(cpu);
  std::error_code ignored;
  const fs::path real = fs::canonical(compiler, ignored);
  struct stat facts = {};
  stat(real.c_str(), &facts);
  all.add_field(fmt::format("{} {} {}", real.string(), facts.st_size, facts.st_mtime));
  return to_hex(all.finish());
}

std::string cache_key(const std::string& settings, std::string_view what) {
  Sha256 all;
  all.add_field(settings);
  all.add_field(what);
  return to_hex(all.finish()) + "-host";
}

struct Unit {  // what one compiler process works on
  std::vector<const HostSource*> sources;
  std::string text;
  fs::path library;
  std::unique_ptr<ChildProcess> process = {};

  void start(const fs::path& compiler, const fs::path& name, const std::string& preamble) {
    text = preamble;
    for (const HostSource* source : sources) text += '\n' + source->text;
    library = name.string() + ".so";
    const std::string source = name.string() + ".cc";
    write_text(source, text, "make room there, or set TMPDIR to a directory with some");
    std::vector<std::string> words = {compiler.string()};
    words.insert(words.end(), std::begin(kFlags), std::end(kFlags));
    words.insert(words.end(), {source, "-o", library.string(), "-lm"});
    process = std::make_unique<ChildProcess>(words, ChildProcess::Options{.merge_errors = true});
  }
};

}  // namespace

// A file in memory, kept open: the loader takes a name that it has seen before for the same
// library.
struct HostCompiler::Library {
  explicit Library(const std::string& code) : file(memfd_create("ridgeline-kernels", MFD_CLOEXEC)) {
    if (file >= 0 && write_all(file, code) == 0)
      handle = dlopen(fmt::format("/proc/self/fd/{}", file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return;
    const char* problem = dlerror();
    if (file >= 0) close(file);
    throw Error(ErrorKind::environment,
                fmt::format("compiled kernels cannot be loaded: {}",
                            problem ? problem : "no memory for them"),
                problem ? kOtherCompiler : "");
  }
  ~Library() {
    dlclose(handle);
    close(file);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  int file = -1;
  void* handle = nullptr;
};

fs::path find_host_compiler(const std::string& wanted) {
  if (!wanted.empty()) return find_program(wanted);
  if (const std::string own = environment("CXX"); !own.empty()) return find_program(own);
  for (const char* name : {"c++", "g++", "clang++"})
    if (const fs::path found = find_program(name); !found.empty()) return found;
  return {};
}

HostCompiler::HostCompiler(HostCompilerOptions options) : options_(std::move(options)) {
  if (options_.dump_dir.empty()) return;
  std::error_code problem;
  fs::create_directories(options_.dump_dir, problem);
  if (problem)
    throw Error(ErrorKind::usage,
                fmt::format("cannot create the directory '{}' for --dump-kernels: {}",
                            options_.dump_dir.string(), problem.message()),
                "choose another directory");
}

HostCompiler::~HostCompiler() = default;

// Not before something is compiled: most devices never compile anything, and leave no trace.
void HostCompiler::open_cache() {
  if (cache_) return;
  const fs::path directory = options_.cache_dir.empty() ? default_jit_cache() : options_.cache_dir;
  cache_ = std::make_shared<DiskCache>(directory == "off" ? fs::path() : directory);
}

void HostCompiler::load(const std::string& code, std::span<const HostSource* const> sources) {
  auto library = std::make_unique<Library>(code);
  for (const HostSource* source : sources)
    if (void* function = dlsym(library->handle, source->entry.c_str()))
      functions_.emplace(source->entry, function);
  libraries_.push_back(std::move(library));
}

// A function's entry on disk names the library that it is in, as several are compiled together.
void HostCompiler::load_cached(const std::string& settings,
                               std::vector<const HostSource*>& wanted) {
  std::unordered_map<std::string, std::vector<const HostSource*>> by_library;
  for (const HostSource* source : wanted)
    if (const auto entry = cache_->read(cache_key(settings, source->text)))
      by_library[entry->code].push_back(source);
  for (const auto& [key, sources] : by_library)
    if (const auto library = cache_->read(key)) try {
        load(library->code, sources);
      } catch (const Error& error) {
        warn_about_cache(error.message());  // they are compiled again
      }
  std::erase_if(wanted,
                [&](const HostSource* source) { return functions_.contains(source->entry); });
}

// Shares the sources out to as many compilers as there are cores, and waits for all of them. What
// ends the waiting ends the compilers and removes their files.
void HostCompiler::compile(const fs::path& compiler, const std::string& settings,
                           const std::string& preamble,
                           std::span<const HostSource* const> sources) {
  const TemporaryDirectory directory;
  const size_t threads = static_cast<size_t>(std::max(1, available_threads()));
  std::vector<Unit> units(std::min(sources.size(), threads));
  for (size_t i = 0; i < sources.size(); ++i) units[i % units.size()].sources.push_back(sources[i]);
  for (size_t i = 0; i < units.size(); ++i)
    units[i].start(compiler, directory.path() / fmt::format("kernels{}", i), preamble);
  const double deadline = monotonic_s() + options_.limit_s;
  std::string failed, words;  // of the first compiler that failed
  bool too_slow = false;
  size_t ready = 0;
  const auto tell = [&] {
    if (options_.compiled) options_.compiled(ready, sources.size());
  };
  tell();
  for (const Unit& unit : units) {
    const auto [outcome, said] = unit.process->read_all(
        {.seconds = deadline - monotonic_s(), .interrupted = options_.interrupted});
    if (outcome == ChildProcess::Outcome::interrupted) throw Interrupted();
    const std::string ending = unit.process->end(0);
    std::string how;
    too_slow = too_slow || outcome == ChildProcess::Outcome::too_slow;
    if (outcome == ChildProcess::Outcome::too_slow)
      how = fmt::format("took longer than {} and was ended", format_seconds(options_.limit_s));
    else if (ending != "exit code 0")
      how = "ended with " + ending;
    else if (!fs::exists(unit.library))
      how = "left no library";
    if (!how.empty() && failed.empty()) {
      failed = how;
      words = said;
    }
    ready += unit.sources.size();
    tell();
  }
  // Without words the compiler is at fault, or whoever ended it; with words, most likely our text.
  if (!failed.empty())
    throw Error(words.empty() || too_slow ? ErrorKind::unsupported : ErrorKind::internal,
                fmt::format("'{}' does not compile fused kernels: it {}{}", compiler.string(),
                            failed, words.empty() ? " without a word" : ":\n" + words),
                kOtherCompiler);
  for (const Unit& unit : units) {
    const std::string code = read_text(unit.library);
    load(code, unit.sources);
    const std::string key = cache_key(settings, unit.text);
    cache_->write(key, {.code = code, .log = {}});
    for (const HostSource* source : unit.sources)
      cache_->write(cache_key(settings, source->text), {.code = key, .log = {}});
  }
  compiled_ += sources.size();
}

std::vector<void*> HostCompiler::functions(const std::string& preamble,
                                           std::span<const HostSource> sources) {
  const std::lock_guard lock(mutex_);
  if (!options_.rewrite) return find(preamble, sources);
  std::vector<HostSource> rewritten(sources.begin(), sources.end());
  for (HostSource& source : rewritten) source.text = options_.rewrite(source.entry, source.text);
  return find(options_.rewrite(kPreambleEntry, preamble), rewritten);
}

std::vector<void*> HostCompiler::find(const std::string& preamble,
                                      std::span<const HostSource> sources) {
  const double start = monotonic_s();
  std::vector<const HostSource*> wanted;
  std::unordered_set<std::string_view> seen;
  for (const HostSource& source : sources)
    if (!functions_.contains(source.entry) && seen.insert(source.entry).second)
      wanted.push_back(&source);
  if (!wanted.empty()) {
    open_cache();
    const fs::path compiler = find_host_compiler(options_.compiler);
    const std::string settings = settings_of(compiler) + to_hex(sha256(preamble));
    load_cached(settings, wanted);
    if (!wanted.empty() && compiler.empty()) throw none_found(options_.compiler);
    if (!wanted.empty()) compile(compiler, settings, preamble, wanted);
  }
  seconds_ += monotonic_s() - start;
  std::vector<void*> found;
  for (const HostSource& source : sources) {
    const auto at = functions_.find(source.entry);
    if (at == functions_.end())
      throw Error(ErrorKind::internal,
                  fmt::format("the compiled library has no function '{}'", source.entry));
    found.push_back(at->second);
    if (!options_.dump_dir.empty())
      write_text(options_.dump_dir / (source.entry + ".cc"),
                 fmt::format("// c++ {}\n{}\n{}", fmt::join(kFlags, " "), preamble, source.text),
                 "choose another directory for --dump-kernels");
  }
  return found;
}

}  // namespace ridgeline
