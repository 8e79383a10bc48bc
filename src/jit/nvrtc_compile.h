// One text through NVRTC.
#pragma once

#include <string>

namespace ridgeline::nvrtc {

struct CompileRequest {
  const std::string& source;
  const std::string& name;  // of the text, in messages: "flash_forward.cu"
  std::string target;       // "sm_90a": machine code; "compute_90a": PTX
  // Not ours but the user's: what does not compile is a usage error, and toolkit headers are found
  // where there are any.
  bool users = false;
};

struct Compiled {
  std::string code;
  std::string log;
};

// Everything but the source and the target that decides what comes out: options and headers, as a
// hash.
const std::string& compiler_settings_hash();

// Throws an internal error with the log when the text does not compile (a usage error when it is
// the user's), an unsupported error when there is no NVRTC or it does not know the target.
Compiled compile(const CompileRequest& request);

}  // namespace ridgeline::nvrtc
