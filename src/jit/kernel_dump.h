// Writes what a kernel is, for people to read: source, PTX, machine code, and SASS where a
// disassembler is found.
#pragma once

#include <filesystem>
#include <string>

namespace ridgeline {

struct KernelDump {
  const std::filesystem::path& directory;
  std::string name;  // of its files, without a suffix
  const std::string& source;
  const std::string& ptx;  // empty: not available
  const std::string& cubin;
};

// Creates the directory and writes the headers there, so that the sources compile where they are.
void prepare_dump(const std::filesystem::path& directory);

// Throws when the directory cannot be written to: somebody asked for these files.
void dump_kernel(const KernelDump& dump);

}  // namespace ridgeline
