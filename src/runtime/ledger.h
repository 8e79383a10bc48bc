// The one account of memory: who holds how much, the peak, and the budget that turns too much into
// an error.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"

namespace ridgeline {

// Where memory really comes from. Device memory and tests bring their own.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Null when there is no more; `reason` then says why.
  virtual void* acquire(Bytes bytes, std::string& reason) = 0;
  virtual void give_back(void* data, Bytes bytes) = 0;
};

struct LedgerEvent {
  std::string name;
  Bytes change;                // negative: released
  Bytes live;                  // afterwards
  const void* data = nullptr;  // where it lies
};

// What was asked of the source so far.
struct Acquired {
  Bytes bytes;
  double seconds = 0;
};

class Ledger;

// A piece of memory that goes back to its ledger when it goes out of scope.
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
  Bytes bytes_;  // asked for
  Bytes block_;  // given
  std::string name_;
};

struct LedgerOptions {
  Bytes budget{INT64_MAX};
  bool keep_events = false;
  // How far cached blocks may lift the process above the peak of its live tensors: at least this,
  // or 2 %.
  Bytes cache_slack{int64_t{32} << 20};
  // Called before every allocation; tests make it throw to inject failures.
  std::function<void(const std::string& name, Bytes bytes)> before_allocation = {};
};

// Blocks are cached for reuse, as a fresh mapping costs a page fault per page. The cache hardly
// makes the process larger than its live tensors have been, live + cached <= peak of live + slack,
// until it is told to keep them all.
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
  // Whether events are kept from now on; those that were kept stay until start_over().
  void keep_events(bool keep) { options_.keep_events = keep; }

  // Starts a new account: frees the cache, forgets the events, and the peak becomes what is live.
  void start_over();

  // Until start_over() the cache keeps every block, up to the budget, so that a loop soon asks the
  // source for nothing: for runs that are timed, and whose memory was looked at before.
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
  Bytes live_, peak_;  // as asked for
  Bytes held_, cached_,
      most_held_;  // in whole blocks: handed out, kept, and the most ever handed out
  Acquired acquired_;
  bool keeps_blocks_ = false;
  std::multimap<int64_t, void*> free_;  // block size -> block
  std::vector<LedgerEvent> events_;
};

}  // namespace ridgeline
