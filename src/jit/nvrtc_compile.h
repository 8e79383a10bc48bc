// Compiles one text with NVRTC.
#pragma once

#include <string>

namespace ridgeline::nvrtc {

struct CompileRequest {
  const std::string& source;
  const std::string& name;  // of the text, in messages: "flash_forward.cu"
  std::string target;       // "sm_90a": machine code; "compute_90a": PTX
  // The user's text: a compile error is a usage error, and toolkit headers are available if
  // installed.
  bool users = false;
};

struct Compiled {
  std::string code;
  std::string log;
};

// A hash of everything but the source and the target that determines the output: options and
// headers.
const std::string& compiler_settings_hash();

// Throws an internal error with the log when the text does not compile (a usage error when it is
// the user's), an unsupported error when there is no NVRTC or it does not know the target.
Compiled compile(const CompileRequest& request);

}  // namespace ridgeline::nvrtc
