#include "profile/memory_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
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
    EXPECT_EQ(timeline.peak(), device.ledger().peak());
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
  EXPECT_EQ(device.ledger().peak(), timeline.predicted_peak);
  EXPECT_LE(timeline.peak(), device.ledger().peak());
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
  const std::vector<TensorGroup> largest = largest_tensors(timeline, 3);
  ASSERT_EQ(largest.size(), 3u);
  const MemoryTensor& first = largest[0].of;
  EXPECT_EQ(largest[0].count, 2u) << "one of each layer";
  EXPECT_EQ(first.type, "fp32[2, 2, 128, 128]");
  EXPECT_TRUE(first.scope.starts_with("layers.*.attention.")) << first.scope;
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

TEST(MemoryTimeline, OfForwardAloneIsTheBeginningOfTheWhole) {
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    CpuDevice device({.threads = 1});
    Executable executable(training_step(tiny_transformer()), device, {.mode = mode});
    const MemoryTimeline whole = predict_memory(executable, device);
    const MemoryTimeline forward = predict_memory(executable, device, 1);
    ASSERT_LT(forward.events.size(), whole.events.size());
    for (size_t i = 0; i < forward.events.size(); ++i) {
      EXPECT_EQ(forward.events[i].live, whole.events[i].live) << i;
      EXPECT_TRUE(i < forward.inputs || forward.events[i].phase == 0) << i;
    }
    executable.prepare();
    testing::fill_inputs(executable, device);
    const MemoryTimeline run = measure_memory(executable, device, 1);
    EXPECT_EQ(run.events.size(), forward.events.size());
    EXPECT_EQ(device.ledger().peak(), forward.predicted_peak);
    EXPECT_EQ(run.peak() + run.gaps(), device.ledger().peak());
  }
}

TEST(MemoryTimeline, OfFewPointsKeepsThePeakAndBothEnds) {
  CpuDevice device({.threads = 1});
  const Executable executable(training_step(tiny_transformer()), device, {});
  const MemoryTimeline timeline = predict_memory(executable, device);
  for (const size_t most : {10u, 50u, 100000u}) {
    const std::vector<size_t> events = telling_events(timeline, most);
    EXPECT_LE(events.size(), std::max<size_t>(most, 4));
    EXPECT_EQ(events.front(), timeline.inputs - 1);
    EXPECT_EQ(events.back(), timeline.events.size() - 1);
    EXPECT_TRUE(std::ranges::is_sorted(events));
    EXPECT_TRUE(std::ranges::count(events, timeline.peak_event)) << most;
  }
  EXPECT_TRUE(telling_events({}, 10).empty());
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
  const auto reaches_peak = [&](const ProfileStep& step) {
    return std::ranges::any_of(track.points, [&](const CounterTrack::Point& point) {
      return point.at_ns >= step.begin_ns && point.at_ns <= step.end_ns && point.value == most;
    });
  };
  for (const ProfileStep& step : profile.steps) EXPECT_TRUE(reaches_peak(step)) << step.number;
}

// Reads a snapshot as the unpickler of MemoryViz.js does, and prints how many names it has and the
// largest size that is live at the end.
constexpr const char* kCheck = R"(
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
segment, = snapshot['segments']
begin, end = segment['address'], segment['address'] + segment['total_size']
active, at = {}, begin
for block in segment['blocks']:
    assert block['address'] == at and block['size'] > 0
    at += block['size']
    if block['state'] == 'active_allocated':
        active[block['address']] = block['size']
assert at == end and active == live
for entry in snapshot['device_traces'][0]:  # or the page's history of the allocator throws
    assert begin <= entry['addr'] and entry['addr'] + entry['size'] <= end
names = {entry['frames'][0]['name'] for entry in snapshot['device_traces'][0]}
print('read', len(names), max(live.values()))
)";

std::string read_by_python(const MemoryTimeline& timeline) {
  const TempDir folder;
  write_memory_snapshot(timeline, folder / "memory.pickle");
  write_text(folder / "check.py", kCheck);
  ChildProcess child({find_program("python3").string(), (folder / "check.py").string(),
                      (folder / "memory.pickle").string()});
  const auto all = child.read_all({.seconds = 60});
  return all.text + child.last_errors();
}

TEST(MemorySnapshot, IsReadByPythonAndBlocksFillTheirSegments) {
  if (find_program("python3").empty()) GTEST_SKIP() << "needs python3";
  CpuDevice device({.threads = 1});
  MemoryTimeline timeline = measured(training_step(tiny_transformer()), Mode::vanilla, device);
  timeline.tensors[1].bytes = {int64_t{1} << 40};
  const std::string read = read_by_python(timeline);
  EXPECT_TRUE(read.starts_with("read ")) << read;
  EXPECT_TRUE(read.ends_with(" 1099511627776\n")) << read;
}

TEST(MemorySnapshot, TenThousandHostileNamesSurvive) {
  if (find_program("python3").empty()) GTEST_SKIP() << "needs python3";
  constexpr uint32_t kNames = 10'000;
  const std::string hostile[] = {
      "\"}{(.",    std::string("\0\0", 2), "\xff\xfe\xc3(", "\n\r\t\x1b[31m",
      "</script>", std::string(300, 'X'),  "\xe2\x80\xae",  "\xf0\x9f\x92\xa9"};
  MemoryTimeline timeline;
  timeline.phases = {"forward"};
  for (uint32_t i = 0; i < kNames; ++i) {
    const std::string& text = hostile[i % std::size(hostile)];
    timeline.tensors.push_back({.name = text + std::to_string(i),
                                .op = text,
                                .type = text,
                                .scope = text,
                                .phase = "forward",
                                .node = i,
                                .bytes = {1024}});
    const Bytes live{1024 * (int64_t{i} + 1)};
    timeline.events.push_back({.tensor = i, .phase = 0, .live = live, .predicted_live = live});
  }
  timeline.peak_event = kNames - 1;
  EXPECT_EQ(read_by_python(timeline), "read 10000 1024\n");
}

TEST(MemorySnapshot, AFullDiskIsAClearError) {
  EXPECT_THROW(write_memory_snapshot({}, "/dev/full"), Error);
}

}  // namespace
}  // namespace ridgeline
