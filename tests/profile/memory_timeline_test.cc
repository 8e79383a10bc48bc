#include "profile/memory_timeline.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/child_process.h"
#include "base/error.h"
#include "measure/test_support.h"
#include "models/attention.h"
#include "profile/profile_support.h"
#include "profile/recorder.h"

namespace ridgeline {
namespace {

using testing::tiny_transformer;
using testing::training_step;

MemoryTimeline measured(const Trace& trace, Mode mode, Device& device) {
  Executable executable(trace, device, {.mode = mode});
  executable.prepare();
  testing::fill_inputs(executable, device);
  return measure_memory(executable, device);
}

TEST(MemoryTimeline, FollowsEveryAllocationBesideItsPrediction) {
  for (const Scenario scenario : {Scenario::forward_backward, Scenario::full_step}) {
    CpuDevice device({.threads = 1});
    const MemoryTimeline timeline =
        measured(training_step(tiny_transformer(), scenario), Mode::vanilla, device);
    EXPECT_EQ(timeline.peak(), timeline.ledger_peak);
    EXPECT_EQ(timeline.peak(), timeline.predicted_peak);
    for (const MemoryEvent& event : timeline.events)
      ASSERT_EQ(event.live, event.predicted_live)
          << timeline.tensors[event.tensor].name << " " << event.is_allocation;
    Bytes live;
    for (const MemoryEvent& event : timeline.events) {
      const Bytes bytes = timeline.tensors[event.tensor].bytes;
      live = event.is_allocation ? live + bytes : live - bytes;
      EXPECT_EQ(live, event.live);
    }
  }
}

TEST(MemoryTimeline, PredictedWithoutARunIsTheMeasuredOne) {
  CpuDevice device({.threads = 1});
  const Executable executable(training_step(tiny_transformer()), device, {});
  const MemoryTimeline predicted = predict_memory(executable, device);
  const MemoryTimeline run = measured(training_step(tiny_transformer()), Mode::vanilla, device);
  ASSERT_EQ(predicted.events.size(), run.events.size());
  for (size_t i = 0; i < run.events.size(); ++i) {
    EXPECT_EQ(predicted.events[i].live, run.events[i].live) << i;
    EXPECT_EQ(predicted.events[i].is_allocation, run.events[i].is_allocation);
    EXPECT_EQ(predicted.tensors[predicted.events[i].tensor].name,
              run.tensors[run.events[i].tensor].name);
  }
  EXPECT_EQ(predicted.peak_event, run.peak_event);
}

TEST(MemoryTimeline, OfAPlanShowsWhatLivesInTheArena) {
  CpuDevice device({.threads = 1});
  const MemoryTimeline timeline =
      measured(training_step(tiny_transformer()), Mode::compiled, device);
  EXPECT_TRUE(timeline.is_planned);
  EXPECT_EQ(timeline.ledger_peak, timeline.predicted_peak);
  EXPECT_LE(timeline.peak(), timeline.ledger_peak);
  size_t scratch = 0, named = 0;
  for (const MemoryEvent& event : timeline.events)
    (timeline.tensors[event.tensor].type.empty() ? scratch : named) += event.is_allocation;
  EXPECT_GT(named, 10 * scratch);
}

TEST(MemoryTimeline, WhatLivesAtThePeakAddsUpToIt) {
  CpuDevice device({.threads = 1});
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    const MemoryTimeline timeline = measured(training_step(tiny_transformer()), mode, device);
    Bytes sum;
    for (const LiveTensor& each : alive_at(timeline, timeline.peak_event))
      sum += timeline.tensors[each.tensor].bytes;
    EXPECT_EQ(sum, timeline.peak());
    device.ledger().start_over();
  }
}

TEST(MemoryTimeline, NamesTheLargestTensorsWithScopeAndOp) {
  TransformerConfig config = tiny_transformer();
  config.context_length = 128;  // the scores [2, 2, 128, 128] are the largest
  config.vocabulary = 16;
  CpuDevice device({.threads = 1});
  const Executable executable(training_step(config, Scenario::forward_backward), device, {});
  const MemoryTimeline timeline = predict_memory(executable, device);
  const std::vector<uint32_t> largest = largest_tensors(timeline, 3);
  ASSERT_EQ(largest.size(), 3u);
  const MemoryTensor& first = timeline.tensors[largest[0]];
  EXPECT_EQ(first.type, "fp32[2, 2, 128, 128]");
  EXPECT_TRUE(first.scope.starts_with("layers.0.attention.")) << first.scope;
  EXPECT_EQ(first.bytes.count, 2 * 2 * 128 * 128 * 4);
}

// shared/spec/MODELS.md gives these sizes.
TEST(MemoryTimeline, OfTheLargeModelNamesTheScoresAndResidualsThatItMustHave) {
  TransformerConfig config = transformer_config("2.7B");
  config.batch_size = 4;
  config.context_length = 512;
  config.layers = 2;  // layers are alike
  CpuDevice device({.threads = 1});
  const Executable executable(training_step(config, Scenario::forward_backward), device, {});
  const MemoryTimeline timeline = predict_memory(executable, device);
  // Gradients of the vocabulary's matrices are larger; they are of parameters, and not kept by the
  // forward pass.
  Bytes largest;
  std::string scope;
  for (const MemoryTensor& tensor : timeline.tensors) {
    if (tensor.name.ends_with("ffn_residual")) {
      EXPECT_EQ(tensor.bytes.count, 20 << 20);
    }
    if (tensor.phase != "forward" || tensor.op == "input" || tensor.bytes <= largest) continue;
    largest = tensor.bytes;
    scope = tensor.scope;
  }
  EXPECT_EQ(largest.count, 128 << 20);
  EXPECT_EQ(scope, "layers.0.attention.scores");
}

TEST(MemoryTimeline, HasAStairForEveryLayer) {
  TransformerConfig config = tiny_transformer();
  config.layers = 4;
  CpuDevice device({.threads = 1});
  const Executable executable(training_step(config, Scenario::forward_backward), device, {});
  const std::vector<MemoryStair> stairs = memory_stairs(predict_memory(executable, device));
  ASSERT_EQ(stairs.size(), 4u);
  for (size_t i = 0; i < stairs.size(); ++i) {
    EXPECT_EQ(stairs[i].layer, "layers." + std::to_string(i));
    EXPECT_GT(stairs[i].kept.count, 0);
  }
  EXPECT_EQ(stairs[1].kept, stairs[2].kept);  // blocks are alike
}

TEST(MemoryTimeline, IsACounterTrackOfAProfiledStep) {
  CpuDevice device({.threads = 1});
  Executable executable(training_step(tiny_transformer()), device, {});
  executable.prepare();
  testing::fill_inputs(executable, device);
  const MemoryTimeline timeline = measure_memory(executable, device);
  const Profile profile = record_profile(executable, device, nullptr, {.compare = false});
  const CounterTrack track = memory_track(timeline, profile);
  ASSERT_FALSE(track.points.empty());
  double most = 0;
  int64_t at = 0;
  for (const CounterTrack::Point& point : track.points) {
    EXPECT_GE(point.at_ns, at);
    at = point.at_ns;
    most = std::max(most, point.value);
  }
  EXPECT_NEAR(most, static_cast<double>(timeline.peak().count), 0.01 * most);
}

TEST(MemorySnapshot, IsReadByPythonAndBlocksFillTheirSegments) {
  CpuDevice device({.threads = 1});
  MemoryTimeline timeline = measured(training_step(tiny_transformer()), Mode::vanilla, device);
  timeline.tensors[0].name = "quote\" \xff\n";
  timeline.tensors[1].bytes = {int64_t{1} << 40};
  const TempDir folder;
  write_memory_snapshot(timeline, folder / "memory.pickle");
  const std::string python = find_program("python3").string();
  if (python.empty()) GTEST_SKIP() << "needs python3";
  write_text(folder / "check.py", R"(
import pickle, pickletools, sys
data = open(sys.argv[1], 'rb').read()
# The opcodes that the unpickler of MemoryViz.js knows.
known = {'PROTO','FRAME','MEMOIZE','MARK','STOP','EMPTY_DICT','SETITEM','SETITEMS','DICT','EMPTY_LIST','APPEND',
         'APPENDS','LIST','BINUNICODE','SHORT_BINUNICODE','BININT','BININT1','BININT2','LONG1','BINFLOAT','NONE',
         'NEWTRUE','NEWFALSE','BINGET','BINPUT','LONG_BINGET','LONG_BINPUT','TUPLE','TUPLE1','TUPLE2','EMPTY_TUPLE'}
used = {op.name for op, arg, pos in pickletools.genops(data)}
assert used <= known, used - known
snapshot = pickle.loads(data)
assert list(snapshot) == ['segments', 'device_traces'] and len(snapshot['device_traces']) == 1
live = {}
for entry in snapshot['device_traces'][0]:
    frame, = entry['frames']
    assert isinstance(frame['filename'], str) and isinstance(frame['line'], int) and isinstance(frame['name'], str)
    if entry['action'] == 'alloc':
        assert entry['addr'] not in live
        live[entry['addr']] = entry['size']
    elif entry['action'] == 'free_completed':
        assert live.pop(entry['addr']) == entry['size']
    else:
        assert entry['action'] == 'free_requested' and live[entry['addr']] == entry['size']
for segment in snapshot['segments']:
    assert sum(block['size'] for block in segment['blocks']) == segment['total_size']
    assert segment['blocks'][0]['address'] == segment['address']
assert {s['address']: s['total_size'] for s in snapshot['segments']} == live
assert max(live.values()) == 1 << 40
print('read', len(snapshot['device_traces'][0]))
)");
  ChildProcess child({python, (folder / "check.py").string(), (folder / "memory.pickle").string()});
  const auto all = child.read_all({.seconds = 60});
  EXPECT_TRUE(all.text.starts_with("read ")) << all.text << child.last_errors();
}

TEST(MemorySnapshot, AFullDiskIsAClearError) {
  EXPECT_THROW(write_memory_snapshot({}, "/dev/full"), Error);
}

}  // namespace
}  // namespace ridgeline
