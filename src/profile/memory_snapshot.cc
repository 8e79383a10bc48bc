// Writes a memory timeline as a pickle for PyTorch's memory_viz.
//
// That page reads only a few opcodes of pickle protocol 2 beyond those used here. A tensor is shown
// as a stack frame: the file is its scope, the line its node, the function its name and type.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "base/file_io.h"
#include "profile/memory_timeline.h"

namespace ridgeline {
namespace {

class Pickle {
 public:
  Pickle() { text_ = "\x80\x02"; }

  void integer(int64_t value) {
    if (value >= INT32_MIN && value <= INT32_MAX) {
      text_ += 'J';
      return little_endian(static_cast<uint64_t>(value), 4);
    }
    text_ += '\x8a';  // LONG1
    text_ += '\x08';
    little_endian(static_cast<uint64_t>(value), 8);
  }
  void text(std::string_view value) {
    text_ += 'X';
    little_endian(value.size(), 4);
    text_ += value;
  }
  // item(i) writes element i. Elements are appended in batches, as Python does: the page's stack
  // holds only some hundred thousand.
  template <class Item>
  void list(size_t count, Item item) {
    constexpr size_t kTogether = 1000;
    text_ += ']';
    for (size_t i = 0; i < count; ++i) {
      if (i % kTogether == 0) text_ += '(';
      item(i);
      if (i % kTogether == kTogether - 1 || i + 1 == count) text_ += 'e';
    }
  }
  // `members` calls key() before each value.
  template <class Members>
  void dictionary(Members members) {
    text_ += "}(";
    members();
    text_ += 'u';
  }
  void member(std::string_view key, std::string_view value) {
    text(key);
    text(value);
  }
  void member(std::string_view key, int64_t value) {
    text(key);
    integer(value);
  }
  void key(std::string_view name) { text(name); }

  std::string end() { return std::move(text_ += '.'); }

 private:
  void little_endian(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i));
  }

  std::string text_;
};

// Makes valid UTF-8 of any bytes, and a nonempty text.
std::string shown(std::string_view text) {
  const std::string json = json_text(text);
  const std::string inner = json.substr(1, json.size() - 2);
  return inner.empty() ? "model" : inner;
}

// Assigns the lowest free addresses, reusing those of released tensors, so that one segment holds
// all tensors, as the page's allocator history requires.
class Addresses {
 public:
  static constexpr int64_t kBegin = int64_t{1} << 32;

  int64_t take(int64_t bytes) {
    const int64_t size = aligned(bytes);
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      if (gap->second < size) continue;
      const auto [address, room] = *gap;
      gaps_.erase(gap);
      if (room > size) gaps_.emplace(address + size, room - size);
      return address;
    }
    return std::exchange(end_, end_ + size);
  }

  void release(int64_t address, int64_t bytes) {
    auto gap = gaps_.emplace(address, aligned(bytes)).first;
    if (const auto next = std::next(gap);
        next != gaps_.end() && gap->first + gap->second == next->first) {
      gap->second += next->second;
      gaps_.erase(next);
    }
    if (gap == gaps_.begin()) return;
    const auto before = std::prev(gap);
    if (before->first + before->second != gap->first) return;
    before->second += gap->second;
    gaps_.erase(gap);
  }

  int64_t end() const { return end_; }

 private:
  static int64_t aligned(int64_t bytes) { return std::max<int64_t>((bytes + 511) / 512, 1) * 512; }

  int64_t end_ = kBegin;
  std::map<int64_t, int64_t> gaps_;  // free bytes by address
};

class Snapshot {
 public:
  explicit Snapshot(const MemoryTimeline& timeline)
      : timeline_(timeline), addresses_(timeline.tensors.size()) {
    Addresses addresses;
    std::map<int64_t, uint32_t> live;  // by address
    for (const MemoryEvent& event : timeline.events) {
      int64_t& address = addresses_[event.tensor];
      const int64_t bytes = size(timeline.tensors[event.tensor]);
      if (event.is_allocation) {
        address = addresses.take(bytes);
        live[address] = event.tensor;
      } else {
        addresses.release(address, bytes);
        live.erase(address);
      }
    }
    end_ = addresses.end();
    for (const auto& [address, tensor] : live) live_.push_back(tensor);
  }

  std::string write() {
    pickle_.dictionary([&] {
      pickle_.key("segments");
      pickle_.list(end_ > Addresses::kBegin ? 1 : 0, [&](size_t) { segment(); });
      pickle_.key("device_traces");
      pickle_.list(1, [&](size_t) { trace(); });
    });
    return pickle_.end();
  }

 private:
  static int64_t size(const MemoryTensor& tensor) { return tensor.bytes.count; }

  void frames(uint32_t of) {
    const MemoryTensor& tensor = timeline_.tensors[of];
    pickle_.key("frames");
    pickle_.list(1, [&](size_t) {
      pickle_.dictionary([&] {
        pickle_.member("filename", shown(tensor.scope));
        pickle_.member("line", tensor.node == kNobody ? 0 : int64_t{tensor.node});
        pickle_.member("name", shown(tensor.name + " " + tensor.type + " by " + tensor.op));
      });
    });
  }

  // Blocks cover the segment without gaps: tensors live at the end, and the free space between.
  struct SegmentBlock {
    int64_t address, bytes;
    std::optional<uint32_t> tensor;
  };
  std::vector<SegmentBlock> blocks() const {
    std::vector<SegmentBlock> found;
    int64_t next = Addresses::kBegin;
    const auto fill_up_to = [&](int64_t address) {
      if (address > next) found.push_back({next, address - next, std::nullopt});
      next = address;
    };
    for (const uint32_t tensor : live_) {
      fill_up_to(addresses_[tensor]);
      found.push_back({next, size(timeline_.tensors[tensor]), tensor});
      next += found.back().bytes;
    }
    fill_up_to(end_);
    return found;
  }

  void segment() {
    const std::vector<SegmentBlock> all = blocks();
    int64_t live = 0;
    for (const uint32_t tensor : live_) live += size(timeline_.tensors[tensor]);
    pickle_.dictionary([&] {
      pickle_.member("device", 0);
      pickle_.member("address", Addresses::kBegin);
      pickle_.member("total_size", end_ - Addresses::kBegin);
      for (const char* key : {"allocated_size", "active_size", "requested_size"})
        pickle_.member(key, live);
      pickle_.member("stream", 0);
      pickle_.member("segment_type", "large");
      pickle_.key("blocks");
      pickle_.list(all.size(), [&](size_t i) {
        pickle_.dictionary([&] {
          pickle_.member("size", all[i].bytes);
          pickle_.member("requested_size", all[i].bytes);
          pickle_.member("address", all[i].address);
          pickle_.member("state", all[i].tensor ? "active_allocated" : "inactive");
          if (all[i].tensor) frames(*all[i].tensor);
        });
      });
    });
  }

  void trace() {
    // The format has two events per release.
    std::vector<std::pair<const MemoryEvent*, const char*>> entries;
    for (const MemoryEvent& event : timeline_.events) {
      entries.emplace_back(&event, event.is_allocation ? "alloc" : "free_requested");
      if (!event.is_allocation) entries.emplace_back(&event, "free_completed");
    }
    pickle_.list(entries.size(), [&](size_t i) {
      const MemoryEvent* event = entries[i].first;
      pickle_.dictionary([&] {
        pickle_.member("action", entries[i].second);
        pickle_.member("addr", addresses_[event->tensor]);
        pickle_.member("size", size(timeline_.tensors[event->tensor]));
        pickle_.member("stream", 0);
        pickle_.member("time_us", static_cast<int64_t>(i));
        frames(event->tensor);
      });
    });
  }

  const MemoryTimeline& timeline_;
  std::vector<int64_t> addresses_;  // of tensors
  std::vector<uint32_t> live_;      // at the end, by address
  int64_t end_ = 0;
  Pickle pickle_;
};

}  // namespace

std::string memory_snapshot(const MemoryTimeline& timeline) {
  return Snapshot(timeline).write();
}

void write_memory_snapshot(const MemoryTimeline& timeline, const std::filesystem::path& path) {
  write_file_atomically(path, memory_snapshot(timeline));
}

}  // namespace ridgeline
