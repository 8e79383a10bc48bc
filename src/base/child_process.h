// A child process that is spoken to in lines: its stdin and stdout are ours, its stderr is kept.
//
//   ChildProcess child({"/usr/bin/python3", "peers"});
//   child.write_line("{\"do\": \"hello\"}");
//   ChildProcess::Reply reply = child.read_line({.seconds = 10});
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

// The program of that name: a path as it is, a plain name as PATH has it. Empty: there is none that
// can be run.
std::filesystem::path find_program(std::string_view name);

class ChildProcess {
 public:
  // Starts a program without a shell, in a process group of its own, so that Ctrl-C on a terminal
  // is ours to answer. `environment` is added to ours. Throws an environment error.
  explicit ChildProcess(const std::vector<std::string>& words,
                        const std::map<std::string, std::string>& environment = {});
  ~ChildProcess();  // ends it, and whatever it has started
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool write_line(std::string_view line);  // false: it does not listen any more

  struct Patience {
    double seconds = 60;                     // until a whole line is there
    std::function<bool()> interrupted = {};  // asked several times a second
  };
  enum class Outcome { line, ended, too_slow, interrupted };
  struct Reply {
    Outcome outcome;
    std::string line = {};  // without its end
  };
  Reply read_line(const Patience& patience);

  // Waits for its end, kills it after `seconds`, and says how it ended: "exit code 3",
  // "signal 11 (Segmentation fault)".
  std::string end(double seconds);
  const std::string& last_errors() const { return errors_; }  // the end of what it wrote to stderr

 private:
  bool read_some(double seconds);  // false: both streams have ended

  int process_ = -1;
  int input_ = -1, output_ = -1, error_ = -1;
  std::string pending_;  // of stdout: the start of a line
  std::string errors_;
  std::string ending_;
};

}  // namespace ridgeline
