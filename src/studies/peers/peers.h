// Rows of the attention, kernel, profile and generate studies that another library runs in a
// separate process.
//
//   Peers peers(device, interrupted);
//   Record described = describe_peer_attention(workload, device, options, blank);
//   std::optional<Record> record = peers.run_attention(workload, options, described);
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/device.h"
#include "studies/attention/row.h"
#include "studies/kernel/row.h"
#include "studies/peers/implementations.h"
#include "studies/peers/profile_row.h"
#include "studies/peers/row.h"
#include "studies/peers/tensors.h"
#include "studies/peers/text_row.h"
#include "studies/peers/worker.h"

namespace ridgeline {

// Returns the row without results. A peer's memory is not predicted, and the cost counts the fewest
// products that the problem needs.
Record describe_peer_attention(const AttentionWorkload& workload, Device& device,
                               const AttentionStudyOptions& options, const Record& blank);

// The workers of one run: one process per library, started on first use.
class Peers {
 public:
  Peers(Device& device, std::function<bool()> interrupted);

  // A missing interpreter, a missing library and refusals become statuses of the record, with the
  // next step in its error. Return nullopt if interrupted.
  std::optional<Record> run_attention(const AttentionWorkload& workload,
                                      const AttentionStudyOptions& options, Record described);
  std::optional<Record> run_kernel(const KernelWorkload& workload,
                                   const KernelStudyOptions& options, Record described);
  std::optional<Record> run_profile(const StepWorkload& workload, const PeerProfileOptions& options,
                                    Record described);
  std::optional<Record> run_text(const PeerText& text, Record described);

 private:
  Worker& worker(const PeerImplementation& peer);
  // Calls `row` with the worker of `peer`, after freeing the memory that our ledger caches.
  using RunRow = std::function<std::optional<Record>(Worker&, Record)>;
  std::optional<Record> run(const PeerImplementation& peer, Record described, const RunRow& row);
  std::optional<Record> run(const PeerImplementation& peer, const WorkerRow& row,
                            const RowOptions& options, Record described);

  Device& device_;
  std::function<bool()> interrupted_;
  WorkerTensors tensors_;
  std::map<std::string, std::unique_ptr<Worker>, std::less<>> workers_;  // by library
};

// Returns the folder with the peers' programs: $RIDGELINE_PEERS, beside the installed program, or
// in the source tree of the build. Empty if there is none.
std::filesystem::path find_peers();

}  // namespace ridgeline
