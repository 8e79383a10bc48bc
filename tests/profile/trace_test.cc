#include "profile/trace.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "measure/test_support.h"
#include "profile/profile_support.h"
#include "profile/recorder.h"
#include "profile/trace_check.h"
#include "profile/trace_file.h"

namespace ridgeline {
namespace {

using testing::events_of;
using testing::overlap_in;

// Kernels of a GPU that begin while the one before them ends, on two streams.
Profile overlapping(size_t kernels) {
  Profile profile;
  profile.has_queue = true;
  profile.device = "a GPU";
  profile.steps = {{.number = 4, .begin_ns = 1'000'000'000'000, .end_ns = 1'000'001'000'000}};
  profile.kernels.resize(1);
  profile.kernels[0].node_name = "scores";
  profile.kernels[0].scope = "layers.0.attention.scores";
  profile.kernels[0].phase = "forward";
  for (uint32_t i = 0; i < kernels; ++i) {
    const int64_t begin = profile.steps[0].begin_ns + 1000 + 50 * i;
    profile.calls.push_back(
        {.kernel = 0, .step = 0, .begin_ns = begin - 900, .end_ns = begin - 860});
    profile.launches.push_back({.name = "cuLaunchKernelEx",
                                .begin_ns = begin - 895,
                                .end_ns = begin - 800,  // sticks out of its call
                                .correlation = i + 1,
                                .thread = 1});
    Invocation each;
    each.work = {.kind = DeviceWork::Kind::kernel,
                 .name = "kernel",
                 .begin_ns = begin,
                 .end_ns = begin + 70,
                 .stream = i % 5 == 4 ? 7u : 3u,
                 .correlation = i + 1};
    each.kernel = each.step = 0;
    each.call = i;
    profile.invocations.push_back(each);
  }
  return profile;
}

testing::ReadTrace written(const Profile& profile, const TraceOptions& options = {}) {
  const TempDir folder;
  write_trace(profile, folder / "trace.json.gz", options);
  return testing::read_trace(testing::gunzip(folder / "trace.json.gz"));
}

TEST(Trace, OfACpuHasStepsKernelsScopesAndThreads) {
  CpuDevice device({.threads = 2});
  Executable executable(testing::training_step(testing::tiny_transformer()), device, {});
  executable.prepare();
  testing::fill_inputs(executable, device);
  const Profile profile = record_profile(executable, device, nullptr, {.compare = false});
  const testing::ReadTrace trace = written(profile, {.name = "tiny"});
  EXPECT_EQ(overlap_in(trace.events), "");
  EXPECT_EQ(trace.head.at("traceName").text(), "tiny");
  EXPECT_EQ(trace.head.at("schemaVersion").get<int>(), 1);
  int steps = 0;
  std::set<std::string> scopes;
  for (const Json* event : events_of(trace, "X", "user_annotation")) {
    steps += event->at("name").text().starts_with("ProfilerStep#");
    scopes.insert(event->at("name").text());
  }
  EXPECT_EQ(steps, 6);
  for (const char* scope : {"forward", "backward", "optimizer", "attention", "softmax", "ffn"})
    EXPECT_TRUE(scopes.contains(scope)) << scope;
  size_t kernels = 0;
  for (const Json* event : events_of(trace, "X", "cpu_op"))
    kernels += event->at("args").contains("node");
  EXPECT_EQ(kernels, profile.invocations.size());
}

TEST(Trace, KernelsThatOverlapAreOnLanesOfTheirStream) {
  const Profile profile = overlapping(200);
  const testing::ReadTrace trace = written(profile);
  EXPECT_EQ(overlap_in(trace.events), "");
  const auto kernels = events_of(trace, "X", "kernel");
  EXPECT_EQ(kernels.size(), 200u);
  std::set<int64_t> tracks;
  for (const Json* kernel : kernels) tracks.insert(kernel->at("tid").get<int64_t>());
  EXPECT_GE(tracks.size(), 3u);
  EXPECT_LE(tracks.size(), 4u);  // two lanes suffice for one stream
  EXPECT_EQ(events_of(trace, "s", "ac2g").size(), 200u);
  EXPECT_EQ(events_of(trace, "f", "ac2g").size(), 200u);
  EXPECT_EQ(kernels[0]->at("args").at("scope").text(), "layers.0.attention.scores");
  EXPECT_EQ(events_of(trace, "X", "cuda_driver").size(), 200u);
  // Times are of whole nanoseconds, from the beginning of the first step on.
  EXPECT_NEAR(kernels[0]->at("ts").get<double>(), 1.0, 1e-9);
  EXPECT_NEAR(kernels[0]->at("dur").get<double>(), 0.07, 1e-9);
}

// The driver gives each branch of a launch graph a stream of its own.
TEST(Trace, OfALaunchGraphSharesLanesAmongItsBranches) {
  Profile profile = overlapping(200);
  for (uint32_t i = 0; Invocation & each : profile.invocations) {
    each.work.stream = 10 + i;
    each.work.graph_node = ++i;
  }
  const testing::ReadTrace trace = written(profile);
  EXPECT_EQ(overlap_in(trace.events), "");
  std::set<int64_t> tracks;
  for (const Json* event : events_of(trace, "X", "kernel"))
    tracks.insert(event->at("tid").get<int64_t>());
  EXPECT_EQ(tracks.size(), 2u);
}

TEST(Trace, TheCheckerFindsSlicesThatOverlap) {
  const std::vector<Json> events = {
      Json::parse(R"({"ph":"X","name":"a","pid":0,"tid":1,"ts":0.000,"dur":2.000})"),
      Json::parse(R"({"ph":"X","name":"b","pid":0,"tid":1,"ts":1.000,"dur":2.000})")};
  EXPECT_NE(overlap_in(events), "");
}

TEST(Trace, CountersAreTracksOfTheirOwn) {
  const CounterTrack memory{.name = "memory",
                            .series = "bytes",
                            .points = {{1'000'000'000'500, 10}, {1'000'000'000'900, 5}}};
  const testing::ReadTrace trace = written(overlapping(1), {.counters = {memory}});
  const auto counters = events_of(trace, "C");
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_EQ(counters[0]->at("args").at("bytes").get<double>(), 10);
}

TEST(Trace, HostileNamesSurvive) {
  Profile profile = overlapping(10'000);
  std::mt19937 random(7);
  for (Invocation& each : profile.invocations) {
    each.work.name.clear();
    for (size_t i = random() % 40; i-- > 0;) each.work.name += static_cast<char>(random());
  }
  profile.invocations[0].work.name = "say \"hi\" \\ \n\t\r\b\x01\x7f </script> \xff\xfe \xc3";
  profile.invocations[1].work.name = "λ→∑ 走る";
  profile.kernels[0].node_name = "quote\" \xf0\x28\x8c\x28";
  profile.kernels[0].scope = ".\"..\x02";
  const testing::ReadTrace trace = written(profile, {.name = "name \" \xff"});
  EXPECT_EQ(overlap_in(trace.events), "");
  const auto kernels = events_of(trace, "X", "kernel");
  ASSERT_EQ(kernels.size(), 10'000u);
  EXPECT_EQ(kernels[1]->at("name").text(), "λ→∑ 走る");
  EXPECT_TRUE(
      kernels[0]->at("name").text().starts_with("say \"hi\" \\ \n\t\r\b\x01\x7f </script> "));
}

TEST(Trace, IsOneJsonValueToOthers) {
  const std::string python = find_program("python3").string();
  if (python.empty()) GTEST_SKIP() << "needs python3";
  const TempDir folder;
  for (const char* file : {"trace.json.gz", "trace.json"}) {
    write_trace(overlapping(500), folder / file);
    ChildProcess child({python, "-c",
                        "import gzip, json, sys\n"
                        "opened = gzip.open if sys.argv[1].endswith('gz') else open\n"
                        "trace = json.load(opened(sys.argv[1], 'rb'))\n"
                        "print(sum(e['ph'] == 'X' and e['cat'] == 'kernel' "
                        "for e in trace['traceEvents']))",
                        (folder / file).string()});
    EXPECT_EQ(child.read_all({.seconds = 60}).text, "500\n") << child.last_errors();
  }
}

TEST(Trace, OfNothingIsATrace) {
  const testing::ReadTrace trace = written(Profile{});
  EXPECT_TRUE(events_of(trace, "X").empty());
}

TEST(Trace, APathThatCannotBeWrittenAndAFullDiskAreClearErrors) {
  const TempDir folder;
  const auto message = [&](const std::filesystem::path& path) -> std::string {
    try {
      write_trace(overlapping(3), path);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  write_text(folder / "file", "x");
  EXPECT_HAS(message(folder / "file" / "trace.json.gz"), "file");
  EXPECT_HAS(message(folder.path()), folder.path().string());
  const std::string full = message("/dev/full");
  EXPECT_HAS(full, "/dev/full");
  EXPECT_HAS(full, "No space left");
}

TEST(TraceFile, IsCompressedIfItsNameSaysSo) {
  const TempDir folder;
  std::mt19937 random(3);
  std::string noise, all_bytes, repeating;
  for (int i = 0; i < 700'000; ++i) noise += static_cast<char>(random());
  for (int i = 0; i < 256; ++i) all_bytes += static_cast<char>(i);
  for (int i = 0; i < 30'000; ++i)
    repeating += "{\"ph\":\"X\",\"name\":\"kernel_" + std::to_string(i % 97) +
                 "\",\"ts\":" + std::to_string(random() % 1'000'000) + "}\n";
  for (const std::string& text :
       {std::string(), std::string("a"), all_bytes, noise, repeating, std::string(100'000, 'z')}) {
    const auto write_in_pieces = [&](const std::filesystem::path& path) {
      write_trace_file(path, [&](const Append& out) {
        for (size_t at = 0; at < text.size(); at += 1009)
          out(std::string_view(text).substr(at, 1009));
      });
    };
    write_in_pieces(folder / "trace.json.gz");
    write_in_pieces(folder / "trace.json");
    EXPECT_TRUE(testing::gunzip(folder / "trace.json.gz") == text) << text.size();
    EXPECT_TRUE(read_file(folder / "trace.json", int64_t{1} << 30) == text) << text.size();
    if (text == repeating) {
      EXPECT_LT(std::filesystem::file_size(folder / "trace.json.gz"), text.size() / 5);
    }
  }
}

}  // namespace
}  // namespace ridgeline
