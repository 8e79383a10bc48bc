// A step of attention or of a whole model, in one mode and scenario, as several studies run it.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/file_io.h"
#include "base/json.h"
#include "compile/lower.h"
#include "models/attention.h"
#include "runtime/device.h"
#include "studies/model/flags.h"
#include "studies/model/inputs.h"

namespace ridgeline {

struct StepWorkload {
  std::variant<ModelWorkload, AttentionConfig> of;
  Mode mode = Mode::vanilla;
  Scenario scenario = Scenario::full_step;  // attention has no full_step
  std::string peer = {};                    // another library, which has no mode; empty: ours

  std::string_view implementation() const { return peer.empty() ? info(mode).name : peer; }
};

Json workload_json(const StepWorkload& workload);
std::string label(const StepWorkload& workload);  // "small context=128 ... full-step, vanilla"
// The label as part of a file name: "small_context_128_batch_4_fp32_full-step_vanilla".
std::string file_name(const StepWorkload& workload);

Trace step_trace(const StepWorkload& workload, const AdamWOptions& optimizer);
CompileOptions step_options(const StepWorkload& workload, const Device& device);
double step_flops(const StepWorkload& workload);  // by convention

struct InputSource {
  Device& device;
  uint64_t seed = 42;
  AdamWOptions optimizer = {};
};
// Fills every input of a prepared executable, with the optimizer at its first step.
void fill_inputs(const StepWorkload& workload, Executable& executable, ModelInputs& of_models,
                 const InputSource& from);

struct StepAxes {
  ModelAxes model = {.context_lengths = {128}, .scenarios = {"full-step"}};
  bool takes_peers = false;  // also other libraries
  bool attention = false;    // instead of whole models
  bool gave_batch_size = false, gave_scenarios = false;
  std::vector<int64_t> seq_lens = {1024};
  std::vector<int64_t> head_dims = {64};
  Words dtypes = {"fp32"};
  bool causal = false;
};
void add_step_axes(Flags& flags, StepAxes* axes);

// The modes of each problem, then its peers. Throws usage errors.
std::vector<StepWorkload> workloads_of(const StepAxes& axes);
// Checks a flag that names the file of one row. Throws a usage error for several rows and for a
// path that cannot be written. Returns a descriptor that keeps a pipe open until it is written.
FileDescriptor check_file_of_one_row(const std::vector<StepWorkload>& workloads, const char* flag,
                                     const std::string& path);
// The flags of one row, ready to paste, without --attention.
std::string to_command(const StepAxes& axes, const StepWorkload& workload);

}  // namespace ridgeline
