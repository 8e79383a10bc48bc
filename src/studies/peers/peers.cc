#include "studies/peers/peers.h"

#include <fmt/format.h>

#include "base/child_process.h"
#include "base/environment.h"
#include "base/error.h"
#include "studies/kernel/metrics.h"
#include "studies/peers/row.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPeerConvention =
    "forward 4 B H S S d, halved when causal; backward 2.5 times forward; an FMA counts as two. "
    "macs and bytes are the fewest that the problem needs";

}  // namespace

fs::path find_peers() {
  std::error_code problem;
  const fs::path program = fs::read_symlink("/proc/self/exe", problem);
  const fs::path candidates[] = {
      environment("RIDGELINE_PEERS"),
      problem ? fs::path() : program.parent_path().parent_path() / "share/ridgeline/peers",
      RIDGELINE_SOURCE_DIR "/peers"};
  if (!candidates[0].empty()) return candidates[0];  // errors in it are reported later
  for (const fs::path& candidate : candidates)
    if (!candidate.empty() && fs::exists(candidate / "__main__.py", problem)) return candidate;
  return {};
}

Record describe_peer_attention(const AttentionWorkload& workload, Device& device,
                               const AttentionStudyOptions& options, const Record& blank) {
  AttentionWorkload problem = workload;
  problem.implementation = "flash";  // needs the fewest products and bytes
  Record record = AttentionRunner(device, options).describe(problem, blank);
  record.implementation = workload.implementation;
  record.settings.erase("backward");
  record.memory = {};
  record.status = Status::ok;  // even if our own kernels refuse the problem
  record.error.clear();
  record.cost->convention = kPeerConvention;
  return record;
}

Peers::Peers(Device& device, std::function<bool()> interrupted)
    : device_(device), interrupted_(std::move(interrupted)) {}

Worker& Peers::worker(const PeerImplementation& peer) {
  std::unique_ptr<Worker>& worker = workers_[std::string(peer.library)];
  if (worker && worker->usable()) return *worker;
  const std::string named = environment("RIDGELINE_PYTHON");
  const fs::path python = find_program(named.empty() ? "python3" : named);
  if (python.empty())
    throw Error(ErrorKind::unsupported,
                named.empty() ? "there is no python3 on PATH"
                              : fmt::format("RIDGELINE_PYTHON is '{}', which cannot be run", named),
                "install Python 3 with the library, and set RIDGELINE_PYTHON to its interpreter");
  const fs::path peers = find_peers();
  if (peers.empty())
    throw Error(ErrorKind::unsupported, "the peers' programs are not beside this program",
                "set RIDGELINE_PEERS to the folder peers/ of the source tree");
  worker =
      std::make_unique<Worker>(WorkerOptions{.name = fmt::format("the {} worker", peer.library),
                                             .words = {python.string(), "-u", "-B", peers.string()},
                                             .interrupted = interrupted_});
  return *worker;
}

std::optional<Record> Peers::run(const PeerImplementation& peer, Record described,
                                 const RunRow& row) {
  device_.ledger().start_over();
  try {
    return row(worker(peer), described);
  } catch (const Error& error) {  // the worker could not be started
    described.time = utc_now();
    fail_worker_row(described, error);
    return described;
  }
}

std::optional<Record> Peers::run(const PeerImplementation& peer, const WorkerRow& row,
                                 const RowOptions& options, Record described) {
  return run(peer, std::move(described), [&](Worker& worker, Record record) {
    return run_worker_row(worker, tensors_, device_, row, options, std::move(record));
  });
}

std::optional<Record> Peers::run_profile(const StepWorkload& workload,
                                         const PeerProfileOptions& options, Record described) {
  const bool is_model = std::holds_alternative<ModelWorkload>(workload.of);
  const PeerImplementation& peer =
      *(is_model ? kModelPeers.find(workload.peer) : kAttentionPeers.find(workload.peer));
  return run(peer, std::move(described), [&](Worker& worker, Record record) {
    return run_worker_profile(worker, tensors_, device_, workload, options, std::move(record));
  });
}

std::optional<Record> Peers::run_text(const PeerText& text, Record described) {
  const PeerImplementation& peer = *kTextPeers.find(described.implementation);
  return run(peer, std::move(described), [&](Worker& worker, Record record) {
    return run_worker_text(worker, device_, text, std::move(record));
  });
}

std::optional<Record> Peers::run_attention(const AttentionWorkload& workload,
                                           const AttentionStudyOptions& options, Record described) {
  const PeerImplementation& peer = *kAttentionPeers.find(workload.implementation);
  const WorkerRow row{
      .config = workload.config,
      .series = {"forward", "backward"},
      .request = {
          {"study", "attention"}, {"implementation", workload.implementation}, {"copies", 1}}};
  std::optional<Record> record = run(peer, row, options.row, std::move(described));
  if (record && record->status == Status::ok)
    check_speed(*record, device_, info(workload.config.dtype).name);
  return record;
}

std::optional<Record> Peers::run_kernel(const KernelWorkload& workload,
                                        const KernelStudyOptions& options, Record described) {
  const PeerImplementation& peer = *kAttentionPeers.find(workload.implementation);
  const WorkerRow row{.config = workload.config,
                      .gradients = options.backward,
                      .series = kernel_series(options.backward),
                      .request = kernel_request(described, device_)};
  std::optional<Record> record = run(peer, row, options.row, std::move(described));
  if (record && record->status == Status::ok) add_kernel_metrics(workload, device_, *record);
  return record;
}

}  // namespace ridgeline
