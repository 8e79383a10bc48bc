// Prints messages to stdout and stderr. A failed write neither throws nor ends the process, because
// measurements are worth more than a message.
//
//   print("{} rows\n", rows.size());                // stdout; main() reports failed writes
//   say("kept the earlier results as {}", aside);   // stderr: "ridgeline: kept ...", one line
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace ridgeline {

// A failed write sets the error flag of `stream` (std::ferror).
void write_text(std::FILE* stream, std::string_view text);

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  write_text(stdout, fmt::vformat(format, fmt::make_format_args(args...)));
}

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  write_text(stderr, "ridgeline: " + fmt::vformat(format, fmt::make_format_args(args...)) + "\n");
}

// Prints a given text only once per process.
void say_once(const std::string& text);

// Call this before opening any file. Opens a closed stdin, stdout or stderr as /dev/null, so that
// no other file gets its descriptor and with it the messages. Ignores SIGXFSZ, so that writes
// beyond `ulimit -f` fail instead of ending the process, and no longer ignores SIGCHLD if the
// caller did, so that child processes can be waited for.
void prepare_standard_streams();

}  // namespace ridgeline
