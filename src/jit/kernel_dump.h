// Dumps a kernel for inspection: source, PTX, machine code, and SASS where a disassembler is found.
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

// Creates the directory and writes the headers there, so that the sources compile in place.
void prepare_dump(const std::filesystem::path& directory);

// Throws if the directory is not writable, since the user asked for these files.
void dump_kernel(const KernelDump& dump);

}  // namespace ridgeline
