// Which launcher has started this process as one of several ranks, by its environment: one table,
// and the first row that matches wins.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ridgeline {

// "" where a variable is not set.
using Variables = std::function<std::string(const char*)>;

struct LaunchedRank {
  std::string launcher;  // "ridgeline", "torchrun", "mpirun", "mpiexec", "srun"
  int rank = 0, size = 1;
  int local_rank = 0;
  int local_size = 0;          // ranks on this host; 0: the launcher does not say
  std::string address = {};    // of rank 0
  int port = 0;                // 0: see port_file
  std::string port_file = {};  // where rank 0 writes the port that it was given
  std::string run_id = {};     // the same on all ranks of a run, and on no others
};

// Empty: nobody has; this process is alone. Throws a usage error for an environment that
// contradicts itself, such as a rank that is not below the size.
std::optional<LaunchedRank> launched_rank(const Variables& variable);
std::optional<LaunchedRank> launched_rank();  // by the environment of this process

// The first host of what Slurm writes: "node[001-015],x" has "node001".
std::string first_host(std::string_view node_list);

inline constexpr const char* kPortVariable = "RIDGELINE_PORT";

}  // namespace ridgeline
