// What else ran on this process's processors while a row was measured: other processes' time, and
// time that a hypervisor gave to other machines.
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
  double window_s = 0;      // that was looked at: the row, and what came before a short one
  int processors = 0;       // that this process may run on
  double other_cores = 0;   // busy with other processes, in the mean
  double stolen_cores = 0;  // given to other virtual machines, in the mean

  // Whether the row was measured on a quiet machine: others had at most a twentieth of its
  // processors, and one tick of the kernel's clock on each.
  bool quiet() const;
  bool operator==(const Disturbance&) const = default;
};

// "other processes used 1.3 of 2 processors"; empty: quiet.
std::string disturbance_text(const Disturbance& disturbance);

class DisturbanceWatch {
 public:
  // Reads /proc below `root` ("/" but for tests). What is missing there leaves rows without facts.
  explicit DisturbanceWatch(std::filesystem::path root = "/");
  // Since the row before; rows shorter than a second share the second before their end. Waits where
  // there has been too little time to tell, up to a quarter of a second after the start.
  std::optional<Disturbance> row_done();

  struct Snapshot {
    double time_s = 0;
    double busy_s = 0, stolen_s = 0, own_s = 0;
    int processors = 0;
  };

 private:
  std::filesystem::path root_;
  std::vector<Snapshot> snapshots_;  // ends of rows, the oldest first
};

}  // namespace ridgeline
