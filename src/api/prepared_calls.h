// Calls that are ready to be made again: found by everything about them but the memory they use.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/units.h"

namespace ridgeline {

class PreparedCall {
 public:
  virtual ~PreparedCall() = default;
  // Runs on tensors in the order of the call, with scratch memory as it asked for.
  virtual void run(std::span<void* const> inputs, std::span<void* const> outputs,
                   void* scratch) = 0;
};

// Numbers that tell calls apart. A call has up to 21 tensors of 13 numbers each.
class CallKey {
 public:
  void add(int64_t word) { words_[count_++] = word; }
  std::span<const int64_t> words() const { return {words_.data(), count_}; }

 private:
  std::array<int64_t, 320> words_;
  size_t count_ = 0;
};

class PreparedCalls {
 public:
  struct Entry {
    Bytes scratch;
    std::unique_ptr<PreparedCall> call;  // none before it is needed
  };
  // Null: there is none yet. Whoever keeps an entry may use it after it was forgotten here.
  std::shared_ptr<Entry> find(const CallKey& key) const;
  std::shared_ptr<Entry> add(const CallKey& key, Entry entry);

 private:
  // As many as the shapes of a large program; beyond them all start anew.
  static constexpr size_t kMostEntries = 4096;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::span<const int64_t> words) const;
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(std::span<const int64_t> a, std::span<const int64_t> b) const;
  };
  std::unordered_map<std::vector<int64_t>, std::shared_ptr<Entry>, Hash, Equal> entries_;
};

}  // namespace ridgeline
