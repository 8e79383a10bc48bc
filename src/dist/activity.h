// What a rank is doing, in words, where others can read it even after the rank was killed: a slot
// in a file that the launcher shares with the rank, or memory of its own.
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
  RankActivity();                                            // seen by this process alone
  explicit RankActivity(const std::filesystem::path& file);  // throws an environment error
  ~RankActivity();
  RankActivity(const RankActivity&) = delete;
  RankActivity& operator=(const RankActivity&) = delete;

  void set(std::string_view words);  // cut to what the slot holds
  std::string words() const;
  // Seconds that the collective which is under way has lasted; 0: none is.
  double in_collective_s() const;

  // Names a collective while it is under way. `activity` may be null.
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

// The words of the file of a rank that may be gone; empty: there are none.
std::string activity_in(const std::filesystem::path& file);

}  // namespace ridgeline
