// A child process, used line by line or run to completion, with timeouts. The destructor kills it
// and all processes it started.
//
//   ChildProcess child({"/usr/bin/python3", "peers"});
//   child.write_line("{\"do\": \"hello\"}");
//   ChildProcess::Reply reply = child.read_line({.seconds = 10});
//
//   ChildProcess compiler({"/usr/bin/g++", "a.cc"}, {.merge_errors = true});
//   ChildProcess::Output output = compiler.read_all({.seconds = 600});
//   if (compiler.end(0) != "exit code 0") ...
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.h"

namespace ridgeline {

// Returns the path of an executable; a name without a slash is searched in PATH. Empty if there is
// none.
std::filesystem::path find_program(std::string_view name);

class ChildProcess {
 public:
  struct Options {
    std::map<std::string, std::string> environment = {};  // overrides inherited ones
    bool merge_errors = false;                            // stderr goes to the same pipe as stdout
  };
  // Starts a program without a shell, in its own process group, so that Ctrl-C on a terminal
  // reaches only this process. Throws an environment error.
  explicit ChildProcess(const std::vector<std::string>& words, const Options& options);
  explicit ChildProcess(const std::vector<std::string>& words) : ChildProcess(words, Options{}) {}
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool write_line(std::string_view line);  // false: the child no longer reads

  struct WaitLimits {
    double seconds = 60;                     // for a whole line, or for the end
    std::function<bool()> interrupted = {};  // polled several times a second
    size_t most_bytes = size_t{4} << 20;     // of a line, or of all output
  };
  enum class Outcome { line, ended, too_slow, interrupted, too_long };
  struct Reply {
    Outcome outcome;
    std::string line = {};  // without the newline
  };
  Reply read_line(const WaitLimits& limits);

  // Closes the child's stdin and returns its output until it ends; output beyond `most_bytes` is
  // discarded.
  struct Output {
    Outcome outcome;
    std::string text = {};
  };
  Output read_all(const WaitLimits& limits);

  // Waits for the child to end, kills it after `seconds`, and returns how it ended: "exit code 3",
  // "signal 11 (Segmentation fault)".
  std::string end(double seconds);
  bool has_ended();                                           // does not wait
  int id() const { return process_; }                         // negative once reaped
  const std::string& last_errors() const { return errors_; }  // the last part of stderr

 private:
  bool read_some(double seconds);  // false: both streams are closed
  void drain();

  int process_ = -1;  // negative once reaped
  int status_ = 0;    // of waitpid
  FileDescriptor input_, output_, error_;
  std::string pending_;  // stdout that was read but not returned
  std::string errors_;
};

}  // namespace ridgeline
