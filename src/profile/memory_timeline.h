// Memory over a run: every allocation and release by tensor, scope and phase, with predicted and
// measured live bytes, and the tensors live at the peak.
//
//   executable.prepare();                     // and uploads, before the first run
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

// What one block of memory is for.
struct MemoryTensor {
  std::string name;  // of the node, or "... scratch"
  std::string op;    // that computes it: "matmul", "input"
  std::string type;  // "fp32[4, 512, 2560]"; empty: scratch
  std::string scope;
  std::string phase;  // that computes it
  uint32_t node = kNobody;
  uint32_t output = 0;  // of the node
  Bytes bytes;
};

struct MemoryEvent {
  uint32_t tensor = 0;  // in MemoryTimeline::tensors
  bool is_allocation = true;
  uint32_t kernel = kNobody;  // KernelRun::number; kNobody: before the first kernel
  uint32_t phase = kNobody;   // index in MemoryTimeline::phases; kNobody: of an input
  Bytes live;                 // afterwards, by the ledger
  Bytes predicted_live;       // afterwards, by liveness of the schedule
};

struct MemoryTimeline {
  std::vector<MemoryTensor> tensors;
  std::vector<MemoryEvent> events;  // inputs first
  std::vector<std::string> phases;  // "forward", "backward", "optimizer"
  size_t inputs = 0;                // number of events of inputs
  size_t peak_event = 0;            // the first with the most live bytes
  Bytes predicted_peak;
  // Tensors of a plan lie in one arena, possibly with gaps. The ledger knows only the whole arena;
  // the events are those inside it.
  bool is_planned = false;

  Bytes peak() const { return events.empty() ? Bytes{} : events[peak_event].live; }
  // The part of a plan's arena that no tensor uses at the peak.
  Bytes gaps() const { return is_planned ? predicted_peak - peak() : Bytes{}; }
};

// How many stages run; 1 is the forward pass alone, which keeps what backward needs.
inline constexpr size_t kAllStages = SIZE_MAX;

// Runs the first stages of a step. The executable must be prepared and not have run before, and
// nothing else may use its device meanwhile.
MemoryTimeline measure_memory(Executable& executable, Device& device, size_t stages = kAllStages);
// Runs nothing: live bytes are the predicted ones.
MemoryTimeline predict_memory(const Executable& executable, const Device& device,
                              size_t stages = kAllStages);

struct LiveTensor {
  uint32_t tensor = 0;
  size_t allocated_at = 0;  // event
};
// Tensors live after an event, largest first.
std::vector<LiveTensor> alive_at(const MemoryTimeline& timeline, size_t event);

// Tensors that differ only in their layer.
struct TensorGroup {
  MemoryTensor of;  // the first; name and scope have a star for the layer: "layers.*.attention"
  size_t count = 0;

  Bytes total() const { return {of.bytes.count * static_cast<int64_t>(count)}; }
};
// Groups live at the peak, by total size, largest first.
std::vector<TensorGroup> groups_at_peak(const MemoryTimeline& timeline);
// Groups without inputs, by size of one tensor, largest first.
std::vector<TensorGroup> largest_tensors(const MemoryTimeline& timeline, size_t most);

// Downsamples the events, from the last input on, to about `most` for a plot: the highest and the
// lowest level of each stretch.
std::vector<size_t> telling_events(const MemoryTimeline& timeline, size_t most);

// Live bytes when the forward phase leaves each layer.
struct MemoryStair {
  std::string layer;  // "layers.3"
  size_t event = 0;   // the last one of that layer's forward
  Bytes live;
  Bytes kept;  // live, less that of the previous stair or of the inputs
};
std::vector<MemoryStair> memory_stairs(const MemoryTimeline& timeline);

// Live bytes over every profiled step: an allocation counts from the beginning of its kernel, a
// release from the end.
CounterTrack memory_track(const MemoryTimeline& timeline, const Profile& profile);

// A snapshot file for PyTorch's memory_viz: a pickle with tensors as stack frames. Throws as
// write_file_atomically().
void write_memory_snapshot(const MemoryTimeline& timeline, const std::filesystem::path& path);
std::string memory_snapshot(const MemoryTimeline& timeline);

}  // namespace ridgeline
