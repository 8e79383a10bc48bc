// Text for people, on stdout and stderr. A stream that cannot be written to throws nothing and ends
// nothing: what was measured is worth more than the message.
//
//   print("{} rows\n", rows.size());                // stdout; main() reports it if that fails
//   say("kept the earlier results as {}", aside);   // stderr: "ridgeline: kept ...", one line
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace ridgeline {

// Writes what it can; `stream` remembers that it failed (std::ferror).
void write_text(std::FILE* stream, std::string_view text);

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  write_text(stdout, fmt::vformat(format, fmt::make_format_args(args...)));
}

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  write_text(stderr, "ridgeline: " + fmt::vformat(format, fmt::make_format_args(args...)) + "\n");
}

// The same line once in a process, however often it is told.
void say_once(const std::string& text);

// To be called before anything is opened. A closed stdin, stdout or stderr becomes /dev/null, so
// that no file takes its number and with it the messages; writing beyond `ulimit -f` becomes an
// error of the write and no more the end of the process.
void prepare_standard_streams();

}  // namespace ridgeline
