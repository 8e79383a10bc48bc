// Measures what else ran on this process's processors beside a row: the time of other processes,
// and the time that a hypervisor gave to other virtual machines.
//
//   DisturbanceWatch watch;
//   ... a row is measured ...
//   record.disturbance = watch.row_done();
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ridgeline {

struct Disturbance {
  double window_s = 0;      // observed time: the row, and the time before a short row
  int processors = 0;       // that this process may run on
  double other_cores = 0;   // mean number busy with other processes
  double stolen_cores = 0;  // mean number given to other virtual machines

  // Whether others used at most 5 % of the processor time, plus one kernel tick per processor.
  bool quiet() const;
  bool operator==(const Disturbance&) const = default;
};

// "other processes used 1.3 of 2 processors"; empty if quiet.
std::string disturbance_text(const Disturbance& disturbance);

class DisturbanceWatch {
 public:
  // Reads /proc under `root` ("/" except in tests).
  explicit DisturbanceWatch(std::filesystem::path root = "/");
  // Returns the disturbance since the previous row ended, or over about the last second if the row
  // was shorter; nullopt if /proc lacks the counters. Waits until the window has a quarter of a
  // second.
  std::optional<Disturbance> row_done();

  struct Snapshot {
    double time_s = 0;
    double busy_s = 0, stolen_s = 0, own_s = 0;
    int processors = 0;
  };

 private:
  std::filesystem::path root_;
  std::vector<Snapshot> snapshots_;  // at the ends of rows, oldest first
};

}  // namespace ridgeline
