#include "dist/launch_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/parse_number.h"
#include "base/sha256.h"

namespace ridgeline {
namespace {

struct LauncherRow {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* also_needs;  // a variable without which the row does not match; null: none
  void (*find_address)(const Variables& variable, LaunchedRank& found);
};

constexpr int kFirstPort = 61440;  // above the default range of ephemeral ports
constexpr int kPorts = 4096;

int derived_port(const std::string& from) {
  const Sha256::Digest digest = sha256(from);
  return kFirstPort + (digest[0] * 256 + digest[1]) % kPorts;
}

// Ranks on one host have the same parent: the launcher or its proxy.
std::string parent_id() {
  return fmt::format("{}", getppid());
}

void local_address(LaunchedRank& found) {
  if (found.local_size == found.size) found.address = "127.0.0.1";
}

void of_ridgeline(const Variables& variable, LaunchedRank& found) {
  found.address = variable("RIDGELINE_ADDRESS");
  found.port_file = variable("RIDGELINE_PORT_FILE");
  found.run_id = variable("RIDGELINE_RUN_ID");
}

void of_torchrun(const Variables& variable, LaunchedRank& found) {
  found.run_id = variable("TORCHELASTIC_RUN_ID") + variable("TORCHELASTIC_RESTART_COUNT");
  // torchrun's own store listens on MASTER_PORT.
  if (const auto port = parse_number<int>(variable("MASTER_PORT")); port && *port < 65535)
    found.port = *port + 1;
}

void of_open_mpi(const Variables& variable, LaunchedRank& found) {
  found.run_id = variable("PMIX_NAMESPACE");
  if (found.run_id.empty()) found.run_id = variable("OMPI_MCA_ess_base_jobid");
  found.port = derived_port(found.run_id + variable("OMPI_MCA_orte_hnp_uri"));
  local_address(found);
  // The host of mpirun: "2113273856.0;tcp://10.0.0.1,172.17.0.1:41093".
  const std::string uri = variable("OMPI_MCA_orte_hnp_uri");
  const size_t at = uri.find("tcp://");
  if (found.address.empty() && at != uri.npos)
    found.address = uri.substr(at + 6, uri.find_first_of(",:", at + 6) - at - 6);
}

void of_hydra(const Variables& variable, LaunchedRank& found) {
  const bool has_many_hosts = found.local_size > 0 && found.local_size < found.size;
  if (has_many_hosts && (variable("MASTER_ADDR").empty() || variable(kPortVariable).empty()))
    throw Error(ErrorKind::usage,
                fmt::format("{} has started rank {} of {} on several hosts, and nothing says where "
                            "rank 0 is",
                            found.launcher, found.rank, found.size),
                fmt::format("set MASTER_ADDR to the host of rank 0 and {} to a free port there, on "
                            "all ranks",
                            kPortVariable));
  if (has_many_hosts) return;
  found.run_id = variable("PMI_JOBID") + "." + parent_id();
  found.port = derived_port(found.run_id);
  local_address(found);
}

void of_slurm(const Variables& variable, LaunchedRank& found) {
  const std::string job = variable("SLURM_JOB_ID");
  found.run_id = job + "." + variable("SLURM_STEP_ID");
  std::string nodes = variable("SLURM_STEP_NODELIST");
  if (nodes.empty()) nodes = variable("SLURM_NODELIST");
  found.address = first_host(nodes);
  found.port = kFirstPort + parse_number<int>(job).value_or(0) % kPorts;
}

constexpr LauncherRow kLaunchers[] = {
    {"ridgeline", "RIDGELINE_RANK", "RIDGELINE_WORLD_SIZE", "RIDGELINE_LOCAL_RANK",
     "RIDGELINE_LOCAL_WORLD_SIZE", nullptr, of_ridgeline},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
     of_torchrun},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, of_open_mpi},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr, of_hydra},
    // The other variables are also set in a shell of salloc.
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE",
     "SLURM_STEP_ID", of_slurm},
};

int expected_number(const Variables& variable, const char* name, int least, int most) {
  const std::string text = variable(name);
  const std::optional<int> value = parse_number<int>(text);
  if (!value || *value < least || *value > most)
    throw Error(
        ErrorKind::usage,
        fmt::format("{} is '{}', and a number from {} to {} was expected", name, text, least, most),
        "the launcher sets it; unset it to run without one");
  return *value;
}

}  // namespace

std::string first_host(std::string_view nodes) {
  const size_t end = nodes.find_first_of(",[");
  std::string host(nodes.substr(0, end));
  if (end == nodes.npos || nodes[end] == ',') return host;
  const std::string_view range = nodes.substr(end + 1);
  return host.append(range.substr(0, range.find_first_of(",-]")));
}

std::optional<LaunchedRank> launched_rank(const Variables& variable) {
  for (const LauncherRow& row : kLaunchers) {
    if (variable(row.rank).empty() || variable(row.size).empty()) continue;
    if (row.also_needs != nullptr && variable(row.also_needs).empty()) continue;
    LaunchedRank found{.launcher = row.name};
    const char* size_name = row.size;
    // A job step may have fewer tasks than the job.
    if (row.rank == std::string_view("SLURM_PROCID") && !variable("SLURM_STEP_NUM_TASKS").empty())
      size_name = "SLURM_STEP_NUM_TASKS";
    found.size = expected_number(variable, size_name, 1, 1 << 20);
    found.rank = expected_number(variable, row.rank, 0, found.size - 1);
    found.local_rank = parse_number<int>(variable(row.local_rank)).value_or(found.rank);
    found.local_size = parse_number<int>(variable(row.local_size)).value_or(0);
    row.find_address(variable, found);
    if (const std::string address = variable("MASTER_ADDR"); !address.empty())
      found.address = address;
    if (!variable(kPortVariable).empty())
      found.port = expected_number(variable, kPortVariable, 1, 65535);
    if (found.address.empty())
      throw Error(ErrorKind::usage,
                  fmt::format("{} has started rank {} of {}, and nothing says where rank 0 is",
                              found.launcher, found.rank, found.size),
                  "set MASTER_ADDR to the host of rank 0, on all ranks");
    return found;
  }
  return std::nullopt;
}

std::optional<LaunchedRank> launched_rank() {
  return launched_rank([](const char* name) { return environment(name); });
}

}  // namespace ridgeline
