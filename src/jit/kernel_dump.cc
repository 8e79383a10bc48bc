#include "jit/kernel_dump.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "base/child_process.h"
#include "base/error.h"
#include "base/print.h"
#include "jit/cuda_libraries.h"
#include "kernels/cuda/embedded.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& path, std::string_view bytes) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    throw Error(
        ErrorKind::environment,
        fmt::format("cannot write '{}': {}", path.string(), std::generic_category().message(errno)),
        "choose another directory for --dump-kernels");
}

// "cuobjdump --dump-sass", or nvdisasm, which needs no option.
struct Disassembler {
  fs::path program;
  std::vector<std::string> options;
};

std::optional<Disassembler> find_disassembler() {
  if (const fs::path program = cuda_tool("cuobjdump"); !program.empty())
    return Disassembler{program, {"--dump-sass"}};
  if (const fs::path program = cuda_tool("nvdisasm"); !program.empty())
    return Disassembler{program, {}};
  return std::nullopt;
}

// The text of the machine code; empty: the tool did not run, failed or hangs.
std::string disassembled(const Disassembler& tool, const fs::path& cubin) {
  std::vector<std::string> words = {tool.program.string()};
  words.insert(words.end(), tool.options.begin(), tool.options.end());
  words.push_back(cubin.string());
  try {
    ChildProcess process(words);
    auto [outcome, text] = process.read_all({.seconds = 60, .most_bytes = size_t{256} << 20});
    return process.end(0) == "exit code 0" ? std::move(text) : std::string();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

void prepare_dump(const fs::path& directory) {
  std::error_code problem;
  fs::create_directories(directory, problem);
  if (problem)
    throw Error(ErrorKind::usage,
                fmt::format("cannot create the directory '{}' for --dump-kernels: {}",
                            directory.string(), problem.message()),
                "choose another directory");
  for (const EmbeddedText& row : cuda_texts())
    if (!row.name.ends_with(".cu")) write_file(directory / row.name, row.text);
}

void dump_kernel(const KernelDump& dump) {
  const auto file = [&](const char* suffix) { return dump.directory / (dump.name + suffix); };
  write_file(file(".cu"), dump.source);
  write_file(file(".cubin"), dump.cubin);
  if (dump.ptx.empty()) {
    say_once(
        "--dump-kernels: no PTX is written: NVRTC was not found, the machine code is from the "
        "cache");
  } else {
    write_file(file(".ptx"), dump.ptx);
  }
  static const std::optional<Disassembler> tool = find_disassembler();
  if (!tool) {
    say_once(
        "--dump-kernels: no SASS is written: neither cuobjdump nor nvdisasm was found (apt install "
        "cuda-cuobjdump-13-0, or put one on PATH)");
  } else if (const std::string sass = disassembled(*tool, file(".cubin")); !sass.empty()) {
    write_file(file(".sass"), sass);
  } else {
    say_once(fmt::format("--dump-kernels: no SASS is written: {} failed on {}",
                         tool->program.string(), file(".cubin").string()));
  }
}

}  // namespace ridgeline
