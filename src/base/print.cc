#include "base/print.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <mutex>
#include <set>

namespace ridgeline {

void write_text(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

void prepare_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // open() returns the lowest free descriptor, which is this one. Without /dev/null, as in a bare
    // chroot, a descriptor that cannot be written to suffices.
    if (open("/dev/null", O_RDWR) < 0) open("/", O_PATH);
  }
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
}

void say_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(text).second) say("{}", text);
}

}  // namespace ridgeline
