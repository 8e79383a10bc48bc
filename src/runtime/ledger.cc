#include "runtime/ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"

namespace ridgeline {
namespace {

constexpr int64_t kSmallestPage = 4096;

Bytes whole_pages(Bytes bytes) {
  return {(std::max<int64_t>(bytes.count, 1) + kSmallestPage - 1) / kSmallestPage * kSmallestPage};
}

}  // namespace

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  Allocation moved(std::move(other));
  swap(moved);
  return *this;
}

Allocation::~Allocation() {
  if (ledger_ != nullptr) ledger_->release(*this);
}

void Allocation::swap(Allocation& other) noexcept {
  std::swap(ledger_, other.ledger_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(block_, other.block_);
  std::swap(name_, other.name_);
}

Ledger::Ledger(MemorySource& source, LedgerOptions options)
    : source_(source), options_(std::move(options)) {}

Ledger::~Ledger() {
  trim({0});
}

Allocation Ledger::allocate(Bytes bytes, std::string name) {
  if (options_.before_allocation) options_.before_allocation(name, bytes);
  if (bytes > options_.budget - live_)
    throw Error(ErrorKind::out_of_memory,
                fmt::format("'{}' needs {}, but {} of the budget of {} are in use", name,
                            to_string(bytes), to_string(live_), to_string(options_.budget)),
                "choose a smaller size or a larger --memory-budget");

  Bytes block = whole_pages(bytes);
  void* data = reuse(block, block);
  if (data == nullptr) {
    trim(ceiling(block) - held_ - block);
    std::string reason;
    data = acquire(block, reason);
    if (data == nullptr && !free_.empty()) {
      trim({0});
      data = acquire(block, reason);
    }
    if (data == nullptr)
      throw Error(ErrorKind::out_of_memory,
                  fmt::format("'{}' needs {}, but {}", name, to_string(bytes), reason),
                  "choose a smaller size or free memory on this machine");
  }

  Allocation allocation;
  allocation.ledger_ = this;
  allocation.data_ = data;
  allocation.bytes_ = bytes;
  allocation.block_ = block;
  allocation.name_ = std::move(name);
  live_ += bytes;
  held_ += block;
  peak_ = std::max(peak_, live_);
  most_held_ = std::max(most_held_, held_);
  if (options_.keep_events) events_.push_back({allocation.name_, bytes, live_, data});
  return allocation;
}

void Ledger::release(Allocation& allocation) noexcept {
  live_ -= allocation.bytes_;
  held_ -= allocation.block_;
  cached_ += allocation.block_;
  free_.emplace(allocation.block_.count, allocation.data_);
  if (options_.keep_events)
    events_.push_back({allocation.name_, Bytes{} - allocation.bytes_, live_, allocation.data_});
}

void* Ledger::acquire(Bytes block, std::string& reason) {
  const double begin = monotonic_s();
  void* data = source_.acquire(block, reason);
  acquired_.seconds += monotonic_s() - begin;
  if (data != nullptr) acquired_.bytes += block;
  return data;
}

// The smallest cached block that fits without wasting more than an eighth.
void* Ledger::reuse(Bytes wanted, Bytes& block) {
  const auto found = free_.lower_bound(wanted.count);
  if (found == free_.end() || found->first > wanted.count + wanted.count / 8) return nullptr;
  // A block that is larger than requested must not exceed the ceiling either.
  if (held_ + Bytes{found->first} > ceiling(wanted)) return nullptr;
  void* data = found->second;
  block = {found->first};
  cached_ -= block;
  free_.erase(found);
  return data;
}

// The maximum of live and cached bytes after `block` is allocated.
Bytes Ledger::ceiling(Bytes block) const {
  const Bytes needed = std::max(most_held_, held_ + block);
  if (keeps_blocks_) return std::max(needed, options_.budget);
  return needed + std::max(options_.cache_slack, Bytes{most_held_.count / 50});
}

// Releases cached blocks to the source, largest first, until at most `allowance` is cached.
void Ledger::trim(Bytes allowance) {
  while (cached_ > allowance) {
    const auto largest = std::prev(free_.end());
    source_.give_back(largest->second, {largest->first});
    cached_ -= Bytes{largest->first};
    free_.erase(largest);
  }
}

void Ledger::start_over() {
  trim({0});
  keeps_blocks_ = false;
  events_.clear();
  peak_ = live_;
  most_held_ = held_;
}

}  // namespace ridgeline
