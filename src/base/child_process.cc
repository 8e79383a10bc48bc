#include "base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace ridgeline {
namespace {

constexpr size_t kKeptErrors = 8192;
constexpr double kBetweenQuestions = 0.1;  // seconds between polls of `interrupted`
constexpr double kBetweenEnds = 0.01;      // seconds between calls of has_ended()

struct Pipe {
  FileDescriptor read_end, write_end;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw Error(ErrorKind::environment, fmt::format("no pipe: {}", errno_text(errno)));
    read_end = FileDescriptor(ends[0]);
    write_end = FileDescriptor(ends[1]);
  }
};

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    if (!added.contains(std::string(text.substr(0, text.find('='))))) all.emplace_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

std::string ending_text(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace

std::filesystem::path find_program(std::string_view name) {
  const auto can_run = [](const std::filesystem::path& path) {
    std::error_code problem;
    return std::filesystem::is_regular_file(path, problem) && access(path.c_str(), X_OK) == 0;
  };
  if (name.empty()) return {};
  if (name.find('/') != name.npos) return can_run(name) ? std::filesystem::path(name) : "";
  const char* variable = std::getenv("PATH");
  std::string_view path = variable ? variable : "/usr/bin:/bin";
  while (true) {
    const size_t colon = path.find(':');
    const std::filesystem::path folder(path.substr(0, colon));
    if (!folder.empty() && can_run(folder / name)) return folder / name;
    if (colon == path.npos) return {};
    path.remove_prefix(colon + 1);
  }
}

ChildProcess::ChildProcess(const std::vector<std::string>& words, const Options& options) {
  Pipe in, out, err;
  std::vector<std::string> arguments = words, variables = merged_environment(options.environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read_end.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, (options.merge_errors ? out : err).write_end.get(),
                                   STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ}) sigaddset(&defaults, signal);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  const int failed = posix_spawn(&process_, words.at(0).c_str(), &actions, &attributes,
                                 pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed)
    throw Error(ErrorKind::environment,
                fmt::format("cannot start '{}': {}", words[0], errno_text(failed)));
  input_ = std::move(in.write_end);
  output_ = std::move(out.read_end);
  error_ = std::move(err.read_end);
}

ChildProcess::~ChildProcess() {
  end(0);
}

bool ChildProcess::write_line(std::string_view line) {
  return write_all(input_.get(), std::string(line) + "\n") == 0;
}

bool ChildProcess::read_some(double seconds) {
  pollfd polled[] = {{output_.get(), POLLIN, 0}, {error_.get(), POLLIN, 0}};
  if (output_.get() < 0 && error_.get() < 0) return false;
  if (poll(polled, 2, static_cast<int>(1e3 * std::max(0.0, seconds))) <= 0) return true;
  FileDescriptor* fds[] = {&output_, &error_};
  std::string* texts[] = {&pending_, &errors_};
  for (int i = 0; i < 2; ++i) {
    if (polled[i].revents == 0) continue;
    char chunk[65536];
    const ssize_t got = read(fds[i]->get(), chunk, sizeof chunk);
    if (got > 0)
      texts[i]->append(chunk, static_cast<size_t>(got));
    else if (got == 0 || errno != EINTR)
      *fds[i] = FileDescriptor();
  }
  if (errors_.size() > kKeptErrors) errors_.erase(0, errors_.size() - kKeptErrors);
  return true;
}

bool ChildProcess::has_ended() {
  if (process_ >= 0 && waitpid(process_, &status_, WNOHANG) == process_) {
    kill(-process_, SIGKILL);  // descendants in its process group
    process_ = -1;
  }
  return process_ < 0;
}

ChildProcess::Reply ChildProcess::read_line(const WaitLimits& limits) {
  const double deadline = monotonic_s() + limits.seconds;
  size_t searched = 0;  // bytes of pending_ without a newline
  while (true) {
    const size_t newline = pending_.find('\n', searched);
    if (std::min(newline, pending_.size()) > limits.most_bytes) return {Outcome::too_long};
    if (newline != pending_.npos) {
      Reply reply{Outcome::line, pending_.substr(0, newline)};
      pending_.erase(0, newline + 1);
      return reply;
    }
    searched = pending_.size();
    if (output_.get() < 0) return {Outcome::ended};
    if (limits.interrupted && limits.interrupted()) return {Outcome::interrupted};
    const double left = deadline - monotonic_s();
    if (left <= 0) return {Outcome::too_slow};
    read_some(std::min(left, kBetweenQuestions));
  }
}

ChildProcess::Output ChildProcess::read_all(const WaitLimits& limits) {
  const double deadline = monotonic_s() + limits.seconds;
  input_ = FileDescriptor();
  Output all{Outcome::ended};
  const auto keep = [&] {
    all.text += pending_.substr(0, limits.most_bytes - all.text.size());
    pending_.clear();
  };
  while (!has_ended()) {
    keep();
    if (limits.interrupted && limits.interrupted()) return {Outcome::interrupted};
    const double left = deadline - monotonic_s();
    if (left <= 0) return {Outcome::too_slow};
    if (!read_some(std::min(left, kBetweenEnds))) sleep_s(kBetweenEnds);
  }
  drain();
  keep();
  return all;
}

std::string ChildProcess::end(double seconds) {
  input_ = FileDescriptor();  // a worker exits at the end of its input
  const double deadline = monotonic_s() + seconds;
  while (!has_ended() && monotonic_s() < deadline) {
    if (!read_some(kBetweenEnds)) sleep_s(kBetweenEnds);
    pending_.clear();  // unread output is discarded
  }
  if (process_ >= 0) {
    kill(-process_, SIGKILL);  // its whole process group
    while (waitpid(process_, &status_, 0) < 0 && errno == EINTR) continue;
    process_ = -1;
  }
  drain();
  return ending_text(status_);
}

// Reads what an ended child left in its pipes, without waiting for others that hold them open.
void ChildProcess::drain() {
  while (output_.get() >= 0 || error_.get() >= 0) {
    pollfd polled[] = {{output_.get(), POLLIN, 0}, {error_.get(), POLLIN, 0}};
    if (poll(polled, 2, 0) <= 0) break;
    read_some(0);
  }
}

}  // namespace ridgeline
