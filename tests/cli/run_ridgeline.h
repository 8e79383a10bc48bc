// Runs the program as a user would: in a directory of its own, with its output captured.
//
//   const Sandbox sandbox;
//   const Finished run = sandbox.run({"attention", "--seq-len", "16"});
//   EXPECT_EQ(run.exit_code, 0) << run.err;
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "measure/read_results.h"
#include "measure/test_support.h"

namespace ridgeline {

using Arguments = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

struct RunOptions {
  std::map<std::string, std::string> environment = {};
  std::map<int, rlim_t> limits = {};     // RLIMIT_... -> its value
  bool stderr_is_terminal = false;       // otherwise a pipe
  std::filesystem::path stdout_to = {};  // empty: captured
  std::filesystem::path stderr_to = {};  // the same
  std::vector<int> closed = {};          // descriptors that it starts without
  std::vector<int> ignored = {};         // signals
  std::chrono::seconds patience{60};     // then it is killed, and the test fails
};

struct Finished {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string out;
  std::string err;
};

// A started program. Reads its output whenever it is waited for, so that it never blocks on a pipe.
class Running {
 public:
  Running(const std::filesystem::path& directory, Arguments arguments, RunOptions options)
      : patience_(options.patience) {
    const auto [out_end, child_out] = make_pipe();
    const auto [err_end, child_err] = options.stderr_is_terminal ? make_terminal() : make_pipe();
    out_ = {out_end, {}};
    err_ = {err_end, {}};
    arguments.insert(arguments.begin(), RIDGELINE_BINARY);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      const int null = open("/dev/null", O_RDONLY);
      const int out = options.stdout_to.empty() ? child_out : open_stream(options.stdout_to);
      const int err = options.stderr_to.empty() ? child_err : open_stream(options.stderr_to);
      bool ready = chdir(directory.c_str()) == 0 && out >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
                   dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0;
      for (const auto& [name, value] : options.environment)
        ready = ready && setenv(name.c_str(), value.c_str(), 1) == 0;
      for (const auto& [resource, value] : options.limits) {
        const rlimit limit{value, value};
        ready = ready && setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0;
      }
      for (const int descriptor : options.closed) close(descriptor);
      for (const int number : options.ignored) signal(number, SIG_IGN);
      if (ready) execv(argv[0], argv.data());
      _exit(127);
    }
    close(child_out);
    close(child_err);
  }

  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (pid_ > 0) {
      send(SIGKILL);
      wait();
    }
  }

  void send(int signal) const { kill(pid_, signal); }

  // Collects output until `done` holds (looked at every few milliseconds), the time is over or the
  // program has ended; says whether `done` held.
  bool collect(std::chrono::microseconds time, const std::function<bool()>& done = {}) {
    const Clock::time_point deadline = Clock::now() + time;
    while (true) {
      if (done && done()) return true;
      const auto left =
          std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now());
      if (left.count() <= 0 || !read_some(std::min(left, std::chrono::microseconds{2000})))
        return done && done();
    }
  }

  Finished wait() {
    const bool ended = !collect(patience_) && !out_.is_open() && !err_.is_open();
    if (!ended) {
      ADD_FAILURE() << "still running after " << patience_.count() << " s: killed";
      send(SIGKILL);
    }
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    Finished finished{.out = std::move(out_.text), .err = std::move(err_.text)};
    if (WIFEXITED(status)) finished.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) finished.signal = WTERMSIG(status);
    return finished;
  }

 private:
  struct Stream {
    int fd = -1;
    std::string text;
    bool is_open() const { return fd >= 0; }
  };

  static std::pair<int, int> make_pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
    return {ends[0], ends[1]};
  }

  static std::pair<int, int> make_terminal() {
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
      throw std::runtime_error("no pseudo terminal");
    return {master, open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC)};
  }

  static int open_stream(const std::filesystem::path& path) {
    return open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  }

  // False once both streams have ended.
  bool read_some(std::chrono::microseconds time) {
    pollfd polled[2] = {{out_.fd, POLLIN, 0}, {err_.fd, POLLIN, 0}};
    if (!out_.is_open() && !err_.is_open()) return false;
    const timespec timeout{0, std::chrono::nanoseconds(time).count()};
    if (ppoll(polled, 2, &timeout, nullptr) <= 0) return true;
    Stream* streams[2] = {&out_, &err_};
    for (int i = 0; i < 2; ++i) {
      if (polled[i].revents == 0) continue;
      char chunk[4096];
      const ssize_t got = read(streams[i]->fd, chunk, sizeof chunk);
      if (got > 0) {
        streams[i]->text.append(chunk, static_cast<size_t>(got));
      } else {  // a terminal whose other side is gone answers with an error
        close(std::exchange(streams[i]->fd, -1));
      }
    }
    return true;
  }

  std::chrono::seconds patience_;
  pid_t pid_ = -1;
  Stream out_, err_;
};

// A fresh directory, and what the program leaves in it.
class Sandbox {
 public:
  Finished run(const Arguments& arguments, const RunOptions& options = {}) const {
    return Running(directory_.path(), arguments, options).wait();
  }

  std::filesystem::path operator/(const std::filesystem::path& name) const {
    return directory_ / name;
  }
  const std::filesystem::path& path() const { return directory_.path(); }
  std::filesystem::path attention(const std::filesystem::path& name) const {
    return directory_ / "results/attention" / name;
  }

  bool is_empty() const { return std::filesystem::is_empty(directory_.path()); }

  // Empty if there is no results file yet.
  ReadResult results() const {
    const auto path = attention("attention.jsonl");
    return std::filesystem::exists(path) ? read_results(path) : ReadResult{};
  }

 private:
  TempDir directory_;
};

struct TinyOptions {
  std::string batch_size = "1";
  std::string warmups = "1";
  std::string iterations = "3";
};

// The attention study with rows of well under a millisecond; `more` brings the sizes.
inline Arguments tiny_attention(const Arguments& more, const TinyOptions& options = {}) {
  Arguments arguments = {"attention", "--device", "cpu", "--threads", "1"};
  arguments.insert(arguments.end(), {"--batch-size", options.batch_size});
  arguments.insert(arguments.end(), {"--num-warmup", options.warmups});
  arguments.insert(arguments.end(), {"--num-iterations", options.iterations});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

inline Arguments operator+(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// How often each workload is in a list of records.
inline std::map<std::string, int> times_recorded(const std::vector<Record>& records) {
  std::map<std::string, int> times;
  for (const Record& record : records) ++times[workload_key(record)];
  return times;
}

inline void expect_each_once(const std::vector<Record>& records, size_t workloads) {
  const auto times = times_recorded(records);
  EXPECT_EQ(times.size(), workloads);
  for (const auto& [key, count] : times) EXPECT_EQ(count, 1) << key;
}

// A machine without any of NVIDIA's libraries, whatever is installed here.
inline RunOptions without_cuda() {
  RunOptions options;
  options.environment = {{"RIDGELINE_CUDA_LIBRARIES", "none"}};
  return options;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ridgeline
