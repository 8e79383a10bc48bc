// A text that says what a rank is doing, which others can read even after the rank was killed: it
// lies in a file that the launcher shares with the rank, or in private memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "dist/collective.h"

namespace ridgeline {

class RankActivity {
 public:
  RankActivity();                                            // visible to this process only
  explicit RankActivity(const std::filesystem::path& file);  // throws an environment error
  ~RankActivity();
  RankActivity(const RankActivity&) = delete;
  RankActivity& operator=(const RankActivity&) = delete;

  void set(std::string_view words);  // truncated to the slot
  std::string words() const;
  // Seconds since the running collective began; 0: none is running.
  double in_collective_s() const;

  // Marks a collective as running during the scope. `activity` may be null.
  class Scope {
   public:
    Scope(RankActivity* activity, const Collective& what);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RankActivity* activity_;
  };

 private:
  struct Slot;
  Slot* slot_;
};

// Reads the file of a rank that may have ended; empty: no text.
std::string activity_in(const std::filesystem::path& file);

}  // namespace ridgeline
