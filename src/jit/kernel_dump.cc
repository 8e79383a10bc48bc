#include "jit/kernel_dump.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <mutex>
#include <optional>
#include <system_error>
#include <vector>

#include "base/error.h"
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

// Its output goes to `output`, no shell is involved. False: it did not run or failed.
bool disassemble(const Disassembler& tool, const fs::path& cubin, const fs::path& output) {
  std::vector<std::string> words = {tool.program.string()};
  words.insert(words.end(), tool.options.begin(), tool.options.end());
  words.push_back(cubin.string());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int failed =
      posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void say_once(const std::string& text) {
  static std::once_flag said;
  std::call_once(said, [&] { fmt::print(stderr, "ridgeline: --dump-kernels: {}\n", text); });
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
    say_once("no PTX is written: NVRTC was not found, the machine code is from the cache");
  } else {
    write_file(file(".ptx"), dump.ptx);
  }
  static const std::optional<Disassembler> tool = find_disassembler();
  if (!tool) {
    say_once(
        "no SASS is written: neither cuobjdump nor nvdisasm was found (apt install "
        "cuda-cuobjdump-13-0, or put one on PATH)");
  } else if (!disassemble(*tool, file(".cubin"), file(".sass"))) {
    std::error_code ignored;
    fs::remove(file(".sass"), ignored);
    say_once(fmt::format("no SASS is written: {} failed on {}", tool->program.string(),
                         file(".cubin").string()));
  }
}

}  // namespace ridgeline
