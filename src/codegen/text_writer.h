// Writes indented lines of generated source.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace ridgeline {

class TextWriter {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += std::string(2 * depth_, ' ') + fmt::format(format, std::forward<Args>(args)...) + '\n';
  }
  // Opens a scope such as "for (...) {", until close().
  template <class... Args>
  void open(fmt::format_string<Args...> format, Args&&... args) {
    line("{} {{", fmt::format(format, std::forward<Args>(args)...));
    ++depth_;
  }
  void close() {
    --depth_;
    line("}}");
  }
  void indent() { ++depth_; }
  void dedent() { --depth_; }
  void text(std::string_view raw) { text_ += raw; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  size_t depth_ = 0;
};

// Replaces ENTRY by a name and returns it; equal texts have equal names (FNV-1a).
inline std::string name_entry(std::string& text, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  const std::string entry = fmt::format("{}_{:016x}", name, hash);
  text.replace(text.find("ENTRY"), 5, entry);
  return entry;
}

}  // namespace ridgeline
