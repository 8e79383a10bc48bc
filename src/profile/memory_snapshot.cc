// A timeline as the pickle that PyTorch's memory_viz opens.
//
// The page reads the opcodes of Python's protocol 2 that are used here and few others. Tensors are
// named in frames: the file is the scope, the line the node, the function the tensor and its type.
#include <algorithm>
#include <cstring>

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
  // Each of `count` elements is written by item(i). In pieces, as Python does: the page's stack
  // takes no more than some hundred thousand at once.
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

// Valid UTF-8 out of any bytes, and nothing that the page takes for frames of Python's own.
std::string shown(std::string_view text) {
  const std::string json = json_text(text);
  const std::string inner = json.substr(1, json.size() - 2);
  return inner.empty() ? "model" : inner;
}

class Snapshot {
 public:
  explicit Snapshot(const MemoryTimeline& timeline) : timeline_(timeline) {
    // Every allocation has addresses of its own: the page wants none to be used twice at a time.
    int64_t next = int64_t{1} << 32;
    for (const MemoryTensor& tensor : timeline.tensors) {
      addresses_.push_back(next);
      next += std::max<int64_t>(size(tensor), 512);
    }
    is_live_.resize(timeline.tensors.size());
    for (const MemoryEvent& event : timeline.events) is_live_[event.tensor] = event.is_allocation;
  }

  std::string write() {
    std::vector<uint32_t> live;
    for (uint32_t i = 0; i < is_live_.size(); ++i)
      if (is_live_[i]) live.push_back(i);
    pickle_.dictionary([&] {
      pickle_.key("segments");
      pickle_.list(live.size(), [&](size_t i) { segment(live[i]); });
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

  // What is live at the end has a segment that it fills.
  void segment(uint32_t tensor) {
    const int64_t bytes = size(timeline_.tensors[tensor]);
    pickle_.dictionary([&] {
      pickle_.member("device", 0);
      pickle_.member("address", addresses_[tensor]);
      for (const char* key : {"total_size", "allocated_size", "active_size", "requested_size"})
        pickle_.member(key, bytes);
      pickle_.member("stream", 0);
      pickle_.member("segment_type", "large");
      pickle_.key("blocks");
      pickle_.list(1, [&](size_t) {
        pickle_.dictionary([&] {
          pickle_.member("size", bytes);
          pickle_.member("requested_size", bytes);
          pickle_.member("address", addresses_[tensor]);
          pickle_.member("state", "active_allocated");
          frames(tensor);
        });
      });
    });
  }

  void trace() {
    // A release is a pair of events.
    std::vector<std::pair<const MemoryEvent*, const char*>> entries;
    for (const MemoryEvent& event : timeline_.events) {
      entries.emplace_back(&event, event.is_allocation ? "alloc" : "free_requested");
      if (!event.is_allocation) entries.emplace_back(&event, "free_completed");
    }
    pickle_.list(entries.size(), [&](size_t i) {
      const auto& [event, action] = entries[i];
      pickle_.dictionary([&] {
        pickle_.member("action", action);
        pickle_.member("addr", addresses_[event->tensor]);
        pickle_.member("size", size(timeline_.tensors[event->tensor]));
        pickle_.member("stream", 0);
        pickle_.member("time_us", static_cast<int64_t>(i));
        frames(event->tensor);
      });
    });
  }

  const MemoryTimeline& timeline_;
  std::vector<int64_t> addresses_;
  std::vector<bool> is_live_;
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
