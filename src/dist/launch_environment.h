// Detects by environment variables which launcher started this process as one of several ranks: the
// first matching row of a table.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ridgeline {

// Returns the value of a variable, "" if it is not set.
using Variables = std::function<std::string(const char*)>;

struct LaunchedRank {
  std::string launcher;  // "ridgeline", "torchrun", "mpirun", "mpiexec", "srun"
  int rank = 0, size = 1;
  int local_rank = 0;
  int local_size = 0;          // ranks on this host; 0: the launcher does not say
  std::string address = {};    // of rank 0
  int port = 0;                // 0: see port_file
  std::string port_file = {};  // where rank 0 writes its port
  std::string run_id = {};     // identifies the run; the same on all its ranks
};

// Empty: no launcher, a single process. Throws a usage error for an inconsistent environment, such
// as a rank that is not below the size.
std::optional<LaunchedRank> launched_rank(const Variables& variable);
std::optional<LaunchedRank> launched_rank();  // reads the environment of this process

// The first host of a Slurm node list: "node001" of "node[001-015],x".
std::string first_host(std::string_view node_list);

inline constexpr const char* kPortVariable = "RIDGELINE_PORT";

}  // namespace ridgeline
