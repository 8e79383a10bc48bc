// A child process with a limit to our patience: spoken to in lines, or run to its end. It and what
// it starts end with this object.
//
//   ChildProcess child({"/usr/bin/python3", "peers"});
//   child.write_line("{\"do\": \"hello\"}");
//   ChildProcess::Reply reply = child.read_line({.seconds = 10});
//
//   ChildProcess compiler({"/usr/bin/g++", "a.cc"}, {.merge_errors = true});
//   ChildProcess::Everything words = compiler.read_all({.seconds = 600});
//   if (compiler.end(0) != "exit code 0") ...
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
  struct Options {
    std::map<std::string, std::string> environment = {};  // added to ours
    bool merge_errors = false;  // stderr goes where stdout goes, in the order of writing
  };
  // Starts a program without a shell, in a process group of its own, so that Ctrl-C on a terminal
  // is ours to answer. Throws an environment error.
  explicit ChildProcess(const std::vector<std::string>& words, const Options& options);
  explicit ChildProcess(const std::vector<std::string>& words) : ChildProcess(words, Options{}) {}
  ~ChildProcess();  // ends it, and whatever it has started
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool write_line(std::string_view line);  // false: it does not listen any more

  struct Patience {
    double seconds = 60;                     // until a whole line, or the end, is there
    std::function<bool()> interrupted = {};  // asked several times a second
    size_t most_bytes = size_t{4} << 20;     // of a line, or of everything
  };
  enum class Outcome { line, ended, too_slow, interrupted, too_long };
  struct Reply {
    Outcome outcome;
    std::string line = {};  // without its end
  };
  Reply read_line(const Patience& patience);

  // What it writes until it ends; beyond `most_bytes` it is read and dropped. Asks nothing more of
  // it: its stdin is closed.
  struct Everything {
    Outcome outcome;
    std::string text = {};
  };
  Everything read_all(const Patience& patience);

  // Waits for its end, kills it after `seconds`, and says how it ended: "exit code 3",
  // "signal 11 (Segmentation fault)".
  std::string end(double seconds);
  bool has_ended();                                           // without waiting
  int id() const { return process_; }                         // below 0: its end was seen
  const std::string& last_errors() const { return errors_; }  // the end of what it wrote to stderr

 private:
  bool read_some(double seconds);  // false: both streams have ended
  void drain();

  int process_ = -1;  // below 0: its end was seen
  int status_ = 0;    // how it ended, as waitpid says it
  int input_ = -1, output_ = -1, error_ = -1;
  std::string pending_;  // of stdout: the start of a line
  std::string errors_;
};

}  // namespace ridgeline
