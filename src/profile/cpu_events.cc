#include "profile/cpu_events.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/file_io.h"

namespace ridgeline {
namespace {

struct Kind {
  const char* name;
  uint32_t type;
  uint64_t config;
  bool happens_in_kernel;  // counted in the OS kernel only, which the system may not permit
  // The count of the whole process, where counting by thread is not permitted; null: none.
  double (*of_process)(const rusage& usage);
};

double nanoseconds(const timeval& time) {
  return 1e9 * static_cast<double>(time.tv_sec) + 1e3 * static_cast<double>(time.tv_usec);
}

constexpr std::array kKinds = {
    Kind{"task_clock_ns", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, false,
         [](const rusage& u) { return nanoseconds(u.ru_utime) + nanoseconds(u.ru_stime); }},
    Kind{"page_faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false,
         [](const rusage& u) { return static_cast<double>(u.ru_minflt + u.ru_majflt); }},
    Kind{"context_switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, true,
         [](const rusage& u) { return static_cast<double>(u.ru_nvcsw + u.ru_nivcsw); }},
    Kind{"cpu_migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, true, nullptr},
    Kind{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false, nullptr},
    Kind{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, false, nullptr},
    Kind{"cache_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, false, nullptr},
};

// Every thread waits for the others, so that each runs exactly one index.
std::vector<pid_t> thread_ids(ThreadPool& pool) {
  const int threads = pool.threads();
  std::vector<pid_t> ids(static_cast<size_t>(threads));
  std::atomic<int> arrived{0};
  pool.for_each(threads, [&](int64_t, int thread) {
    ids[static_cast<size_t>(thread)] = static_cast<pid_t>(syscall(SYS_gettid));
    for (++arrived; arrived < threads;) std::this_thread::yield();
  });
  return ids;
}

FileDescriptor open_event(const Kind& kind, pid_t thread, int group) {
  perf_event_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.size = sizeof attributes;
  attributes.type = kind.type;
  attributes.config = kind.config;
  attributes.disabled = group < 0;  // only the leader; members are enabled with it
  attributes.exclude_kernel = !kind.happens_in_kernel;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return FileDescriptor(static_cast<int>(
      syscall(SYS_perf_event_open, &attributes, thread, -1, group, PERF_FLAG_FD_CLOEXEC)));
}

std::string why_refused(int error) {
  if (error == ENOENT || error == EOPNOTSUPP)
    return "the processor offers no such counter here, as is usual in virtual machines";
  if (error == EACCES || error == EPERM)
    return "the system does not allow it (kernel.perf_event_paranoid, or a container whose filter "
           "blocks perf_event_open)";
  return fmt::format("perf_event_open gave {}", errno_text(error));
}

// Reads a count, extrapolated if the counter was multiplexed and ran for part of the time only.
std::optional<double> scaled(const FileDescriptor& event) {
  struct {
    uint64_t value, enabled, running;
  } seen = {};
  if (read(event.get(), &seen, sizeof seen) != sizeof seen) return std::nullopt;
  if (seen.running == 0) return seen.value == 0 ? std::optional<double>(0) : std::nullopt;
  return static_cast<double>(seen.value) * static_cast<double>(seen.enabled) /
         static_cast<double>(seen.running);
}

}  // namespace

const CpuCount* CpuCounts::find(std::string_view name) const {
  for (const CpuCount& count : counts)
    if (count.name == name) return &count;
  return nullptr;
}

CpuEvents::CpuEvents(ThreadPool& pool) : events_(kKinds.size()) {
  for (const pid_t thread : thread_ids(pool)) {
    std::array<int, 2> leaders = {-1, -1};  // group leaders of hardware and software events
    static_assert(PERF_TYPE_HARDWARE == 0 && PERF_TYPE_SOFTWARE == 1);
    for (size_t i = 0; i < kKinds.size(); ++i) {
      if (!events_[i].why_not.empty()) continue;
      int& leader = leaders[kKinds[i].type];
      FileDescriptor event = open_event(kKinds[i], thread, leader);
      if (event.get() < 0) {
        events_[i] = {{}, why_refused(errno)};
        continue;
      }
      if (leader < 0) leader = event.get();
      events_[i].threads.push_back(std::move(event));
    }
  }
}

void CpuEvents::start() {
  getrusage(RUSAGE_SELF, &before_);
  for (Event& event : events_)
    for (const FileDescriptor& thread : event.threads) {
      ioctl(thread.get(), PERF_EVENT_IOC_RESET, 0);
      ioctl(thread.get(), PERF_EVENT_IOC_ENABLE, 0);
    }
}

CpuCounts CpuEvents::stop() {
  rusage after = {};
  getrusage(RUSAGE_SELF, &after);
  CpuCounts seen;
  seen.forced_switches = static_cast<double>(after.ru_nivcsw - before_.ru_nivcsw);
  for (Event& event : events_)
    for (const FileDescriptor& thread : event.threads)
      ioctl(thread.get(), PERF_EVENT_IOC_DISABLE, 0);
  for (size_t i = 0; i < kKinds.size(); ++i) {
    CpuCount count{
        .name = kKinds[i].name, .total = {}, .why_not = events_[i].why_not, .by_thread = {}};
    for (const FileDescriptor& thread : events_[i].threads) {
      const std::optional<double> value = scaled(thread);
      if (!value) {
        count = {.name = kKinds[i].name,
                 .total = {},
                 .why_not = "the counter did not run",
                 .by_thread = {}};
        break;
      }
      count.by_thread.push_back(*value);
      count.total = count.total.value_or(0) + *value;
    }
    if (!count.total && kKinds[i].of_process != nullptr)
      count.total = kKinds[i].of_process(after) - kKinds[i].of_process(before_);
    if (count.total) count.why_not.clear();
    seen.counts.push_back(std::move(count));
  }
  return seen;
}

}  // namespace ridgeline
