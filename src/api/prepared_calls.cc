#include "api/prepared_calls.h"

#include <algorithm>

namespace ridgeline {

size_t PreparedCalls::Hash::operator()(std::span<const int64_t> words) const {
  uint64_t hash = words.size();
  for (int64_t word : words) {
    hash = (hash ^ static_cast<uint64_t>(word)) * 0x9E37'79B9'7F4A'7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

bool PreparedCalls::Equal::operator()(std::span<const int64_t> a,
                                      std::span<const int64_t> b) const {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::shared_ptr<PreparedCalls::Entry> PreparedCalls::find(const CallKey& key) const {
  const auto found = entries_.find(key.words());
  return found == entries_.end() ? nullptr : found->second;
}

std::shared_ptr<PreparedCalls::Entry> PreparedCalls::add(const CallKey& key, Entry entry) {
  if (entries_.size() >= kMostEntries) entries_.clear();
  const std::span<const int64_t> words = key.words();
  auto kept = std::make_shared<Entry>(std::move(entry));
  entries_.insert_or_assign({words.begin(), words.end()}, kept);
  return kept;
}

}  // namespace ridgeline
