// Sums the time of all GPU work of a process, by CUPTI's activity records. CUDA loads this library
// into the process if CUDA_INJECTION64_PATH names it; at the end of the process it writes "count
// nanoseconds" to $KERNEL_TIME_FILE.
#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

constexpr size_t kBufferBytes = 8 << 20;
uint64_t count = 0;
uint64_t nanoseconds = 0;

template <typename Record>
void add(const CUpti_Activity* activity) {
  const auto* record = reinterpret_cast<const Record*>(activity);
  ++count;
  nanoseconds += record->end - record->start;
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* activity = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &activity) == CUPTI_SUCCESS) {
    if (activity->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
      add<CUpti_ActivityKernel9>(activity);
    if (activity->kind == CUPTI_ACTIVITY_KIND_MEMCPY) add<CUpti_ActivityMemcpy5>(activity);
    if (activity->kind == CUPTI_ACTIVITY_KIND_MEMSET) add<CUpti_ActivityMemset4>(activity);
  }
  std::free(buffer);
}

void write_sums() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const char* path = std::getenv("KERNEL_TIME_FILE");
  std::FILE* file = path == nullptr ? stderr : std::fopen(path, "w");
  if (file == nullptr) return;
  std::fprintf(file, "%llu %llu\n", static_cast<unsigned long long>(count),
               static_cast<unsigned long long>(nanoseconds));
  if (file != stderr) std::fclose(file);
}

}  // namespace

extern "C" int InitializeInjection() {
  bool ready = cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS;
  for (CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                  CUPTI_ACTIVITY_KIND_MEMSET})
    ready = ready && cuptiActivityEnable(kind) == CUPTI_SUCCESS;
  if (ready) std::atexit(write_sums);
  return ready ? 1 : 0;
}
