#include "runtime/nvtx.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/environment.h"
#include "graph/scope.h"
#include "jit/cuda_libraries.h"

namespace ridgeline {
namespace {

struct Nvtx {
  int (*push)(const char* name) = nullptr;
  int (*pop)() = nullptr;
  std::string why_not = {};
};

Nvtx load() {
  Nvtx nvtx;
  const std::string injected = environment("NVTX_INJECTION64_PATH");
  if (injected.empty()) return nvtx;
  CudaLibrary library;
  for (const char* stem : {"nvtx3interop", "nvToolsExt"}) {  // in CUDA 13, in CUDA 12
    library = find_cuda_library(stem, {.variable = environment});
    if (library) break;
  }
  nvtx.push = reinterpret_cast<int (*)(const char*)>(library.symbol("nvtxRangePushA"));
  nvtx.pop = reinterpret_cast<int (*)()>(library.symbol("nvtxRangePop"));
  if (!nvtx.push || !nvtx.pop)
    nvtx.why_not = fmt::format(
        "a profiler asks for ranges (NVTX_INJECTION64_PATH={}), but no NVTX was found "
        "(tried {}); {}",
        injected, tried_text(library), library.how_to_get);
  return nvtx;
}

const Nvtx& nvtx() {
  static const Nvtx instance = load();
  return instance;
}

// Returns the phase and the scopes: "forward", "layers", "3", "attention", "scores".
std::vector<std::string> parts_of(const KernelRun& run) {
  std::vector<std::string> parts = {run.graph.stages()[run.graph.stage_of(run.node)].name};
  std::ranges::move(scope_parts(run.graph.scope_path(run.graph.nodes()[run.node])),
                    std::back_inserter(parts));
  return parts;
}

}  // namespace

std::unique_ptr<NvtxScopes> NvtxScopes::open(std::string& why_not) {
  why_not = nvtx().why_not;
  if (!nvtx().push || !nvtx().pop) return nullptr;
  return std::unique_ptr<NvtxScopes>(new NvtxScopes);
}

NvtxScopes::~NvtxScopes() {
  close();
}

// Ranges that the new parts share stay open.
void NvtxScopes::enter(std::vector<std::string> parts) {
  size_t same = 0;
  while (same < open_.size() && same < parts.size() && open_[same] == parts[same]) ++same;
  for (size_t i = same; i < open_.size(); ++i) nvtx().pop();
  for (size_t i = same; i < parts.size(); ++i) nvtx().push(parts[i].c_str());
  open_ = std::move(parts);
}

void NvtxScopes::close() {
  enter({});
}

void NvtxScopes::before(const KernelRun& run) {
  std::vector<std::string> parts;
  if (is_recording_) parts.emplace_back("recording a launch graph");
  std::ranges::move(parts_of(run), std::back_inserter(parts));
  enter(std::move(parts));
  if (next_) next_->before(run);
}

void NvtxScopes::after(const KernelRun& run) {
  if (next_) next_->after(run);
}

void NvtxScopes::begin_recording() {
  is_recording_ = true;
  if (next_) next_->begin_recording();
}

void NvtxScopes::end_recording() {
  if (next_) next_->end_recording();
  is_recording_ = false;
  close();
}

void NvtxScopes::before_start() {
  enter({"start of a launch graph"});
  if (next_) next_->before_start();
}

void NvtxScopes::after_start() {
  if (next_) next_->after_start();
  close();
}

}  // namespace ridgeline
