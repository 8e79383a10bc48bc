// What the profile study looks at: attention or a whole model, in one mode and scenario.
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

struct ProfileWorkload {
  std::variant<ModelWorkload, AttentionConfig> of;
  Mode mode = Mode::vanilla;
  Scenario scenario = Scenario::full_step;  // of attention: forward, or forward and backward
  std::string peer = {};                    // another library's, which has no mode; empty: ours

  std::string_view implementation() const { return peer.empty() ? info(mode).name : peer; }
};

Json workload_json(const ProfileWorkload& workload);
std::string label(const ProfileWorkload& workload);  // "small context=128 ... full-step, vanilla"
// The label as a part of a file's name: "small_context_128_batch_4_fp32_full-step_vanilla".
std::string file_name(const ProfileWorkload& workload);

Trace profile_trace(const ProfileWorkload& workload, const AdamWOptions& optimizer);
CompileOptions profile_options(const ProfileWorkload& workload, const Device& device);
double profile_flops(const ProfileWorkload& workload);  // of one step, by convention

// Fills every input of a prepared executable; an optimizer stands at its first step.
struct InputSource {
  Device& device;
  uint64_t seed = 42;
  AdamWOptions optimizer = {};
};
void fill_inputs(const ProfileWorkload& workload, Executable& executable, ModelInputs& of_models,
                 const InputSource& from);

struct ProfileAxes {
  ModelAxes model = {.context_lengths = {128}, .scenarios = {"full-step"}};
  bool takes_peers = false;  // implementations of other libraries, too
  bool attention = false;    // instead of models
  bool gave_batch_size = false, gave_scenarios = false;
  std::vector<int64_t> seq_lens = {1024};
  std::vector<int64_t> head_dims = {64};
  Words dtypes = {"fp32"};
  bool causal = false;
};
void add_profile_axes(Flags& flags, ProfileAxes* axes);

// Modes of one problem follow each other, and then its peers. Throws usage errors.
std::vector<ProfileWorkload> workloads_of(const ProfileAxes& axes);
// A flag that names one file for what each row writes. Throws a usage error for several rows and
// for a path that cannot be written; gives what keeps a pipe open until it is.
FileDescriptor check_file_of_one_row(const std::vector<ProfileWorkload>& workloads,
                                     const char* flag, const std::string& path);
// The flags of one row, to be pasted, without --attention.
std::string to_command(const ProfileAxes& axes, const ProfileWorkload& workload);

}  // namespace ridgeline
