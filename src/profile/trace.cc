#include "profile/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/file_io.h"
#include "base/json.h"
#include "graph/scope.h"
#include "profile/trace_file.h"

namespace ridgeline {
namespace {

// Process and track ids of the file. The process id of a GPU is its number, as in Kineto.
constexpr uint32_t kHost = 100'000;
constexpr uint32_t kCallsTrack = 1, kScopesTrack = 2, kFirstThreadTrack = 10;
constexpr uint32_t kLanesPerStream = 100;
constexpr uint32_t kLaunchGraph = 0;  // not a stream id
constexpr uint32_t kGpuScopesTrack = 10'000'000;

struct Track {
  uint32_t process = 0, thread = 0;
  auto operator<=>(const Track&) const = default;
};

struct Slice {
  std::string_view category;
  std::string name;
  int64_t begin_ns = 0, end_ns = 0;
  std::string arguments = {};  // members of an object
};

class Events {
 public:
  Events(const Append& out, int64_t origin_ns) : out_(out), origin_ns_(origin_ns) {}

  void raw(std::string_view text) {
    constexpr size_t kTogether = size_t{64} << 10;
    text_ += text;
    if (text_.size() >= kTogether) flush();
  }
  void flush() {
    out_(text_);
    text_.clear();
  }

  std::string time(int64_t ns) const {
    const int64_t since = std::max<int64_t>(ns - origin_ns_, 0);
    return fmt::format("{}.{:03}", since / 1000, since % 1000);
  }

  void slice(const Track& track, const Slice& slice) {
    const int64_t duration = std::max<int64_t>(slice.end_ns - slice.begin_ns, 1);
    add(R"({{"ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{},"dur":{}.{:03},"args":{{{}}}}})",
        slice.category, json_text(slice.name), track.process, track.thread, time(slice.begin_ns),
        duration / 1000, duration % 1000, slice.arguments);
  }

  void flow(size_t id, const Track& from, int64_t from_ns, const Track& to, int64_t to_ns) {
    add(R"({{"ph":"s","id":{},"cat":"ac2g","name":"ac2g","pid":{},"tid":{},"ts":{}}})", id,
        from.process, from.thread, time(from_ns));
    add(R"({{"ph":"f","bp":"e","id":{},"cat":"ac2g","name":"ac2g","pid":{},"tid":{},"ts":{}}})", id,
        to.process, to.thread, time(to_ns));
  }

  void counter(const std::string& process, const CounterTrack& track,
               const CounterTrack::Point& point) {
    add(R"({{"ph":"C","cat":"hardware_counters","name":{},"pid":{},"tid":0,"ts":{},"args":{{{}:{}}}}})",
        json_text(track.name), process, time(point.at_ns), json_text(track.series),
        Json(point.value).dump());
  }

  void name_process(uint32_t process, std::string_view name, std::string_view label, int place) {
    meta("process_name", {process, 0}, fmt::format(R"("name":{})", json_text(name)));
    meta("process_labels", {process, 0}, fmt::format(R"("labels":{})", json_text(label)));
    meta("process_sort_index", {process, 0}, fmt::format(R"("sort_index":{})", place));
  }

  void name_track(const Track& track, std::string_view name, uint32_t place) {
    meta("thread_name", track, fmt::format(R"("name":{})", json_text(name)));
    meta("thread_sort_index", track, fmt::format(R"("sort_index":{})", place));
  }

 private:
  void meta(std::string_view kind, const Track& track, const std::string& arguments) {
    add(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"ts":0,"args":{{{}}}}})", kind, track.process,
        track.thread, arguments);
  }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    raw(is_first_ ? "" : ",\n");
    is_first_ = false;
    // Avoids vformat_to, which would compile all of fmt here.
    text_ += fmt::vformat(format, fmt::make_format_args(args...));
  }

  const Append& out_;
  int64_t origin_ns_;
  bool is_first_ = true;
  std::string text_;
};

// Writes the slices of one track in order; a slice that would end after its parent is cut there.
void write_nested(Events& events, const Track& track, std::vector<Slice> slices) {
  std::ranges::stable_sort(slices, [](const Slice& a, const Slice& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::vector<int64_t> open;  // ends of the enclosing slices
  for (Slice& slice : slices) {
    slice.end_ns = std::max(slice.end_ns, slice.begin_ns + 1);
    while (!open.empty() && open.back() <= slice.begin_ns) open.pop_back();
    if (!open.empty()) slice.end_ns = std::min(slice.end_ns, open.back());
    open.push_back(slice.end_ns);
    events.slice(track, slice);
  }
}

// The stream under which work is shown. The driver runs each branch of a launch graph on its own
// stream, often dozens, so all work of launch graphs is shown as that of one stream.
uint32_t shown_stream(const DeviceWork& work) {
  return work.graph_node == 0 ? work.stream : kLaunchGraph;
}

std::string kernel_arguments(const Profile& profile, const Invocation& each) {
  const DeviceWork& work = each.work;
  std::string text = fmt::format(R"("category":"{}")", name(each.category));
  if (each.kernel != kNobody) {
    const ProfiledKernel& kernel = profile.kernels[each.kernel];
    text +=
        fmt::format(R"(,"node":{},"scope":{},"phase":{},"FLOPs":{},"bytes moved":{})",
                    json_text(kernel.node_name), json_text(kernel.scope), json_text(kernel.phase),
                    Json(kernel.cost.flops).dump(), Json(kernel.cost.bytes).dump());
    if (kernel.predicted_us)
      text += fmt::format(R"(,"predicted us":{})", Json(*kernel.predicted_us).dump());
  }
  if (!profile.has_queue) return text + fmt::format(R"(,"imbalance":{:.3f})", each.imbalance);
  text += fmt::format(R"(,"External id":{},"queued":0,"device":{},"context":{},"stream":{},)"
                      R"("correlation":{})",
                      each.call, work.device, work.context, work.stream, work.correlation);
  if (work.kind == DeviceWork::Kind::kernel)
    text += fmt::format(R"(,"registers per thread":{},"shared memory":{},"grid":[{},{},{}],)"
                        R"("block":[{},{},{}])",
                        work.registers_per_thread, work.shared_bytes, work.grid[0], work.grid[1],
                        work.grid[2], work.block[0], work.block[1], work.block[2]);
  else
    text += fmt::format(R"(,"bytes":{})", work.bytes);
  if (work.graph_node != 0)
    text += fmt::format(R"(,"graph id":{},"graph node id":{})", work.graph, work.graph_node);
  return text;
}

std::string_view category_of_work(DeviceWork::Kind kind) {
  static constexpr std::string_view kNames[] = {"kernel", "gpu_memcpy", "gpu_memset"};
  return kNames[static_cast<size_t>(kind)];
}

// Slices for phases and nested scopes that enclose the kernels of a profile.
std::vector<Slice> scope_slices(const Profile& profile, std::string_view category) {
  struct Open {
    std::string part;
    int64_t begin_ns;
  };
  std::vector<Open> open;
  std::vector<Slice> slices;
  int64_t end_ns = std::numeric_limits<int64_t>::min();
  const auto close_to = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back())
      slices.push_back({category, open.back().part, open.back().begin_ns, end_ns, {}});
  };
  uint32_t step = kNobody;
  for (const Invocation& each : profile.invocations) {
    std::vector<std::string> parts = scope_parts(profile.scope(each));
    parts.insert(parts.begin(), std::string(profile.phase(each)));
    if (each.kernel == kNobody || each.work.end_ns <= end_ns) continue;
    size_t same = 0;
    while (each.step == step && same < open.size() && same < parts.size() &&
           open[same].part == parts[same])
      ++same;
    close_to(same);
    const int64_t begin_ns = std::max(each.work.begin_ns, end_ns);
    for (size_t i = same; i < parts.size(); ++i) open.push_back({parts[i], begin_ns});
    end_ns = each.work.end_ns;
    step = each.step;
  }
  close_to(0);
  return slices;
}

int64_t earliest_ns(const Profile& profile) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const ProfileStep& step : profile.steps) first = std::min(first, step.begin_ns);
  for (const Invocation& each : profile.invocations) first = std::min(first, each.work.begin_ns);
  return first == std::numeric_limits<int64_t>::max() ? 0 : first;
}

class TraceFile {
 public:
  TraceFile(const Profile& profile, const TraceOptions& options, const Append& out)
      : profile_(profile), options_(options), events_(out, earliest_ns(profile)) {}

  void write() {
    events_.raw(fmt::format(
        R"({{"schemaVersion":1,"traceName":{},"displayTimeUnit":"ns",)"
        R"("baseTimeNanoseconds":{},"distributedInfo":{{"rank":0}},"deviceProperties":[{{"id":0,"name":{}}}],)"
        R"("traceEvents":[)"
        "\n",
        json_text(options_.name), earliest_ns(profile_), json_text(profile_.device)));
    events_.name_process(kHost, "ridgeline", "CPU", 0);
    events_.name_track({kHost, kCallsTrack}, "calls", kCallsTrack);
    write_host();
    if (profile_.has_queue)
      write_device();
    else
      write_threads();
    for (const CounterTrack& track : options_.counters) {
      // In Kineto the process of counters is a text, other processes are numbers.
      const std::string process = track.process.empty()
                                      ? fmt::to_string(profile_.has_queue ? 0 : kHost)
                                      : json_text(track.process);
      for (const CounterTrack::Point& point : track.points) events_.counter(process, track, point);
    }
    events_.raw("\n]}\n");
    events_.flush();
  }

 private:
  void write_host() {
    std::vector<Slice> slices;
    for (const ProfileStep& step : profile_.steps)
      slices.push_back({"user_annotation",
                        fmt::format("ProfilerStep#{}", step.number),
                        step.begin_ns,
                        step.end_ns,
                        {}});
    for (const TraceMark& mark : options_.marks)
      slices.push_back({"user_annotation", mark.name, mark.begin_ns, mark.end_ns, {}});
    if (profile_.has_queue)
      for (uint32_t i = 0; i < profile_.calls.size(); ++i) {
        const HostCall& call = profile_.calls[i];
        if (call.step == kNobody) continue;
        slices.push_back({"cpu_op",
                          call.kernel == kNobody ? "start of a launch graph"
                                                 : profile_.kernels[call.kernel].node_name,
                          call.begin_ns, call.end_ns, fmt::format(R"("External id":{})", i)});
      }
    else
      for (const Invocation& each : profile_.invocations)
        slices.push_back({"cpu_op", each.work.name, each.work.begin_ns, each.work.end_ns,
                          kernel_arguments(profile_, each)});
    for (const LaunchCall& launch : profile_.launches)
      slices.push_back({launch.name.starts_with("cuda") ? "cuda_runtime" : "cuda_driver",
                        launch.name, launch.begin_ns, launch.end_ns,
                        fmt::format(R"("correlation":{})", launch.correlation)});
    write_nested(events_, {kHost, kCallsTrack}, std::move(slices));
    if (profile_.has_queue) return;
    events_.name_track({kHost, kScopesTrack}, "scopes", kScopesTrack);
    write_nested(events_, {kHost, kScopesTrack}, scope_slices(profile_, "user_annotation"));
  }

  void write_device() {
    const std::vector<uint32_t> lanes = lanes_of(profile_);
    std::map<uint32_t, int64_t> launched;  // by correlation
    for (const LaunchCall& launch : profile_.launches)
      launched.emplace(launch.correlation, launch.begin_ns);
    std::set<uint32_t> named_processes;
    std::set<Track> named;
    for (size_t i = 0; i < profile_.invocations.size(); ++i) {
      const Invocation& each = profile_.invocations[i];
      const uint32_t stream = shown_stream(each.work);
      const Track track{each.work.device, stream * kLanesPerStream + lanes[i]};
      if (named_processes.insert(track.process).second)
        events_.name_process(track.process, "ridgeline", fmt::format("GPU {}", track.process),
                             static_cast<int>(track.process) + 1);
      if (named.insert(track).second)
        events_.name_track(track, track_name(each.work, lanes[i]), track.thread);
      events_.slice(track, {category_of_work(each.work.kind), each.work.name, each.work.begin_ns,
                            each.work.end_ns, kernel_arguments(profile_, each)});
      const auto found = launched.find(each.work.correlation);
      if (found != launched.end())
        events_.flow(i + 1, {kHost, kCallsTrack}, found->second, track, each.work.begin_ns);
      else if (each.call != kNobody)
        events_.flow(i + 1, {kHost, kCallsTrack}, profile_.calls[each.call].begin_ns, track,
                     each.work.begin_ns);
    }
    events_.name_track({0, kGpuScopesTrack}, "scopes", 0);
    write_nested(events_, {0, kGpuScopesTrack}, scope_slices(profile_, "gpu_user_annotation"));
  }

  // When each thread was busy, named by the kernel.
  void write_threads() {
    for (uint32_t thread = 0; thread < profile_.threads.size(); ++thread) {
      const Track track{kHost, kFirstThreadTrack + thread};
      events_.name_track(track, fmt::format("thread {}", thread), track.thread);
      std::vector<Slice> slices;
      size_t at = 0;
      for (const ThreadSpan& span : profile_.threads[thread]) {
        while (at < profile_.invocations.size() &&
               profile_.invocations[at].work.end_ns <= span.begin_ns)
          ++at;
        if (at == profile_.invocations.size()) break;
        const DeviceWork& work = profile_.invocations[at].work;
        if (span.begin_ns >= work.begin_ns)
          slices.push_back({"cpu_op", work.name, span.begin_ns, span.end_ns, {}});
      }
      write_nested(events_, track, std::move(slices));
    }
  }

  const Profile& profile_;
  const TraceOptions& options_;
  Events events_;
};

}  // namespace

std::string track_name(const DeviceWork& work, uint32_t lane) {
  const uint32_t stream = shown_stream(work);
  return fmt::format("{}{}",
                     stream == kLaunchGraph ? "launch graph" : fmt::format("stream {}", stream),
                     lane == 0 ? "" : fmt::format(" (overlap {})", lane));
}

std::vector<uint32_t> lanes_of(const Profile& profile) {
  std::map<Track, std::vector<int64_t>> ends;  // of each lane, by device and stream
  std::vector<uint32_t> lanes;
  for (const Invocation& each : profile.invocations) {
    std::vector<int64_t>& free_from = ends[{each.work.device, shown_stream(each.work)}];
    const auto lane =
        std::ranges::find_if(free_from, [&](int64_t end) { return end <= each.work.begin_ns; });
    lanes.push_back(static_cast<uint32_t>(lane - free_from.begin()));
    const int64_t end = std::max(each.work.end_ns, each.work.begin_ns + 1);
    if (lane == free_from.end())
      free_from.push_back(end);
    else
      *lane = end;
  }
  return lanes;
}

std::string json_text(std::string_view text) {
  return Json(text).dump();
}

void write_trace(const Profile& profile, const std::filesystem::path& path,
                 const TraceOptions& options) {
  write_trace_file(path, [&](const Append& out) { TraceFile(profile, options, out).write(); });
}

}  // namespace ridgeline
