// The texts of the CUDA kernels: those of the build, and headers generated from tables.
#include <string>
#include <vector>

#include "kernels/cuda/embedded.h"
#include "plan/op_text.h"

namespace ridgeline {
namespace {

std::string header_of(const char* what, const std::string& functions) {
  return std::string("// ") + what + ", from graph/pointwise_ops.h.\n#pragma once\n\n" +
         "namespace ridgeline {\n\n" + functions + "\n}  // namespace ridgeline\n";
}

}  // namespace

std::span<const EmbeddedText> cuda_texts() {
  static const std::string functions =
      header_of("Pointwise functions in fp32", pointwise_functions(KernelLanguage::cuda));
  static const std::string operators =
      header_of("Pointwise ops that are expressions, by name", pointwise_operators());
  static const std::vector<EmbeddedText> all = [] {
    const std::span<const EmbeddedText> built = built_cuda_texts();
    std::vector<EmbeddedText> texts(built.begin(), built.end());
    texts.push_back({"functions.cuh", functions});
    texts.push_back({"operators.cuh", operators});
    return texts;
  }();
  return all;
}

}  // namespace ridgeline
