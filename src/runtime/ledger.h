// The account of all tensor memory: live allocations, the peak, and a budget beyond which
// allocations fail.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"

namespace ridgeline {

// The allocator below the ledger; each device and some tests have their own.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Null when out of memory; `reason` then says why.
  virtual void* acquire(Bytes bytes, std::string& reason) = 0;
  virtual void give_back(void* data, Bytes bytes) = 0;
};

struct LedgerEvent {
  std::string name;
  Bytes change;                // negative: released
  Bytes live;                  // afterwards
  const void* data = nullptr;  // its address
};

// Totals acquired from the source so far.
struct Acquired {
  Bytes bytes;
  double seconds = 0;
};

class Ledger;

// Owns a block of memory and returns it to its ledger on destruction.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept { swap(other); }
  Allocation& operator=(Allocation&& other) noexcept;
  ~Allocation();

  void* data() const { return data_; }
  Bytes bytes() const { return bytes_; }
  explicit operator bool() const { return ledger_ != nullptr; }

 private:
  friend class Ledger;
  void swap(Allocation& other) noexcept;

  Ledger* ledger_ = nullptr;
  void* data_ = nullptr;
  Bytes bytes_;  // requested
  Bytes block_;  // allocated
  std::string name_;
};

struct LedgerOptions {
  Bytes budget{INT64_MAX};
  bool keep_events = false;
  // How far cached blocks may raise the process above the peak of its live tensors: this, or 2 % if
  // more.
  Bytes cache_slack{int64_t{32} << 20};
  // Called before every allocation; tests make it throw to inject failures.
  std::function<void(const std::string& name, Bytes bytes)> before_allocation = {};
};

// Blocks are cached for reuse, as a fresh mapping costs a page fault per page. The cache is bounded
// by live + cached <= peak of live + slack, until keep_blocks().
class Ledger {
 public:
  Ledger(MemorySource& source, LedgerOptions options);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Throws an out_of_memory error that names the tensor, the budget and what is live.
  Allocation allocate(Bytes bytes, std::string name);

  Bytes live() const { return live_; }
  Bytes peak() const { return peak_; }
  const Acquired& acquired() const { return acquired_; }
  Bytes budget() const { return options_.budget; }
  const std::vector<LedgerEvent>& events() const { return events_; }
  // Whether events are recorded from now on; earlier ones are kept until start_over().
  void keep_events(bool keep) { options_.keep_events = keep; }

  // Starts a new account: frees the cache, forgets the events, and resets the peak to what is live.
  void start_over();

  // Until start_over() the cache keeps every block, up to the budget, so that a loop soon needs
  // nothing from the source: for timed runs, whose memory was measured before.
  void keep_blocks() { keeps_blocks_ = true; }

 private:
  friend class Allocation;
  void release(Allocation& allocation) noexcept;
  void* reuse(Bytes wanted, Bytes& block);
  void* acquire(Bytes block, std::string& reason);
  void trim(Bytes allowance);
  Bytes ceiling(Bytes block) const;

  MemorySource& source_;
  LedgerOptions options_;
  Bytes live_, peak_;  // as requested
  Bytes held_, cached_,
      most_held_;  // in whole blocks: in use, cached, and the peak in use
  Acquired acquired_;
  bool keeps_blocks_ = false;
  std::multimap<int64_t, void*> free_;  // block size -> block
  std::vector<LedgerEvent> events_;
};

}  // namespace ridgeline
