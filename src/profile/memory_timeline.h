// Memory over a run: every allocation by tensor, scope and phase, what was predicted beside what
// was measured, the peak and what lives there.
//
//   executable.prepare();                     // and uploads; nothing was run yet
//   const MemoryTimeline timeline = measure_memory(executable, device);
//   for (const LiveTensor& tensor : alive_at(timeline, timeline.peak_event)) ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compile/executable.h"
#include "profile/profile.h"
#include "profile/trace.h"

namespace ridgeline {

// What one piece of memory is for.
struct MemoryTensor {
  std::string name;  // of the node, or "... scratch"
  std::string op;    // that made it: "matmul", "input"
  std::string type;  // "fp32[4, 512, 2560]"; empty: scratch
  std::string scope;
  std::string phase;  // in which it was made
  uint32_t node = kNobody;
  uint32_t output = 0;  // of the node
  Bytes bytes;
};

struct MemoryEvent {
  uint32_t tensor = 0;  // in MemoryTimeline::tensors
  bool is_allocation = true;
  uint32_t kernel = kNobody;  // KernelRun::number around it; nobody: before the first one
  uint32_t phase = kNobody;   // in MemoryTimeline::phases, when it happens; nobody: an input's
  Bytes live;                 // afterwards, as the ledger has it
  Bytes predicted_live;       // afterwards, as liveness over the schedule has it
};

struct MemoryTimeline {
  std::vector<MemoryTensor> tensors;
  std::vector<MemoryEvent> events;  // inputs first
  std::vector<std::string> phases;  // "forward", "backward", "optimizer"
  size_t inputs = 0;                // events at the beginning that are of inputs
  size_t peak_event = 0;            // the first with the most live bytes
  Bytes ledger_peak;                // of the whole run, and of all that the device holds
  Bytes predicted_peak;
  // A plan places its tensors in one arena, in which gaps may remain: the ledger has it as a whole,
  // and events are those inside of it.
  bool is_planned = false;

  Bytes peak() const { return events.empty() ? Bytes{} : events[peak_event].live; }
  // Of a plan's arena: what no tensor fills at the peak.
  Bytes gaps() const { return is_planned ? predicted_peak - peak() : Bytes{}; }
};

// How far a step goes: 1 is the forward pass alone, which leaves what backward needs.
inline constexpr size_t kAllStages = SIZE_MAX;

// Runs the first stages of a step. The executable is prepared and was not run before; its device is
// used by nobody else meanwhile.
MemoryTimeline measure_memory(Executable& executable, Device& device, size_t stages = kAllStages);
// Without running anything: live bytes are the predicted ones.
MemoryTimeline predict_memory(const Executable& executable, const Device& device,
                              size_t stages = kAllStages);

struct LiveTensor {
  uint32_t tensor = 0;
  size_t allocated_at = 0;  // event
};
// After an event, largest first.
std::vector<LiveTensor> alive_at(const MemoryTimeline& timeline, size_t event);

// Tensors that differ in nothing but the layer that they are of.
struct TensorGroup {
  MemoryTensor of;  // the first; name and scope have a star for the layer: "layers.*.attention"
  size_t count = 0;

  Bytes total() const { return {of.bytes.count * static_cast<int64_t>(count)}; }
};
// What lives at the peak: the groups that take most first.
std::vector<TensorGroup> groups_at_peak(const MemoryTimeline& timeline);
// Without inputs: the groups with the largest tensors first.
std::vector<TensorGroup> largest_tensors(const MemoryTimeline& timeline, size_t most);

// The events that a drawing of so many points needs, from the last input on: between neighbours
// that are left out, the highest and the lowest level.
std::vector<size_t> telling_events(const MemoryTimeline& timeline, size_t most);

// Live bytes when the forward phase leaves each block of the model: one stair per layer.
struct MemoryStair {
  std::string layer;  // "layers.3"
  size_t event = 0;   // the last one of that layer's forward
  Bytes live;
  Bytes kept;  // more than after the stair before, or than the inputs
};
std::vector<MemoryStair> memory_stairs(const MemoryTimeline& timeline);

// Over every profiled step, at the beginning of the kernel that each allocation belongs to and at
// the end of the one after which memory is released.
CounterTrack memory_track(const MemoryTimeline& timeline, const Profile& profile);

// As a file that PyTorch's memory_viz opens: a pickle of its snapshot, tensors as frames. Throws as
// write_file_atomically does.
void write_memory_snapshot(const MemoryTimeline& timeline, const std::filesystem::path& path);
std::string memory_snapshot(const MemoryTimeline& timeline);

}  // namespace ridgeline
