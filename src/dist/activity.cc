#include "dist/activity.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/units.h"

namespace ridgeline {

// Written by one thread at a time, read by any process: a reader may see a partly written text, but
// never reads beyond the slot.
struct RankActivity::Slot {
  static constexpr size_t kLength = 248;
  std::atomic<int64_t> began_ns;  // of the running collective; 0: none
  std::atomic<CollectiveKind> kind;
  std::atomic<int64_t> bytes;
  std::atomic<char> text[kLength];
};

namespace {

std::string words_of(const std::atomic<char>* text, size_t length) {
  std::string words;
  for (size_t i = 0; i < length; ++i) {
    const char c = text[i].load(std::memory_order_relaxed);
    if (c == 0) break;
    words += c >= ' ' && c <= '~' ? c : '?';
  }
  return words;
}

void* shared_slot(int file, size_t bytes) {
  const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (memory == MAP_FAILED)
    throw Error(ErrorKind::environment,
                fmt::format("no memory for the activity of a rank: {}", errno_text(errno)));
  return memory;
}

}  // namespace

RankActivity::RankActivity() : slot_(static_cast<Slot*>(shared_slot(-1, sizeof(Slot)))) {}

RankActivity::RankActivity(const std::filesystem::path& file) {
  const FileDescriptor opened = open_file(file, O_RDWR | O_CREAT, "write");
  if (ftruncate(opened.get(), sizeof(Slot)) != 0)
    throw Error(ErrorKind::environment,
                fmt::format("cannot write '{}': {}", file.string(), errno_text(errno)));
  slot_ = static_cast<Slot*>(shared_slot(opened.get(), sizeof(Slot)));
}

RankActivity::~RankActivity() {
  munmap(static_cast<void*>(slot_), sizeof(Slot));
}

void RankActivity::set(std::string_view words) {
  const size_t length = std::min(words.size(), Slot::kLength - 1);
  for (size_t i = 0; i < length; ++i) slot_->text[i].store(words[i], std::memory_order_relaxed);
  slot_->text[length].store(0, std::memory_order_relaxed);
}

std::string RankActivity::words() const {
  std::string words = words_of(slot_->text, Slot::kLength);
  if (slot_->began_ns == 0) return words;
  const CollectiveKind kind = slot_->kind;
  std::string collective(name(kind));
  if (kind != CollectiveKind::barrier) collective += " of " + to_string(Bytes{slot_->bytes});
  return words.empty() ? collective : fmt::format("{}, in its {}", words, collective);
}

double RankActivity::in_collective_s() const {
  const int64_t began = slot_->began_ns;
  return began == 0 ? 0 : static_cast<double>(monotonic_ns() - began) / 1e9;
}

RankActivity::Scope::Scope(RankActivity* activity, const Collective& what) : activity_(activity) {
  if (activity_ == nullptr) return;
  if (!what.name.empty()) activity_->set(what.name);
  activity_->slot_->kind = what.kind;
  activity_->slot_->bytes = what.bytes();
  activity_->slot_->began_ns = monotonic_ns();
}

RankActivity::Scope::~Scope() {
  if (activity_ != nullptr) activity_->slot_->began_ns = 0;
}

std::string activity_in(const std::filesystem::path& file) {
  std::error_code missing;
  if (!std::filesystem::exists(file, missing)) return {};
  return RankActivity(file).words();
}

}  // namespace ridgeline
