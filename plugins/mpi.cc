// The plugin for MPI, built once per installed implementation (Open MPI, MPICH), because their
// types have different layouts.

// Leaves out the C++ bindings, which need further libraries.
#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "dist/plugin_abi.h"

namespace {

// Most elements or bytes per MPI call, whose counts and offsets are of type int.
constexpr int64_t kMostElements = int64_t{1} << 30;

struct State {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
  bool initialised_here = false;
  std::string error;
};

int outcome(State& state, int code, const char* call) {
  if (code == MPI_SUCCESS) return 0;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  state.error = std::string(call) + ": " + text;
  return 1;
}

State& of(void* state) {
  return *static_cast<State*>(state);
}

int all_reduce_f32(void* opaque, const float* in, float* out, int64_t count) {
  State& state = of(opaque);
  for (int64_t begin = 0; begin < count; begin += kMostElements) {
    const auto length =
        static_cast<int>(count - begin < kMostElements ? count - begin : kMostElements);
    const int code = MPI_Allreduce(in == out ? MPI_IN_PLACE : in + begin, out + begin, length,
                                   MPI_FLOAT, MPI_SUM, state.comm);
    if (outcome(state, code, "MPI_Allreduce")) return 1;
  }
  return 0;
}

int reduce_scatter_f32(void* opaque, const float* in, float* out, const int64_t* counts) {
  State& state = of(opaque);
  std::vector<int> each(static_cast<size_t>(state.size));
  int64_t before = 0;
  for (int rank = 0; rank < state.size; ++rank) {
    if (counts[rank] > kMostElements) {
      state.error = "a shard of more than 2^30 elements";
      return 1;
    }
    each[static_cast<size_t>(rank)] = static_cast<int>(counts[rank]);
    if (rank < state.rank) before += counts[rank];
  }
  // MPI_IN_PLACE would leave the shard at the beginning of the buffer instead of at this rank's
  // offset, so a reduction in place goes through a temporary buffer.
  std::vector<float> aside;
  float* to = out;
  if (out == in + before) {
    aside.resize(static_cast<size_t>(counts[state.rank]));
    to = aside.data();
  }
  const int code = MPI_Reduce_scatter(in, to, each.data(), MPI_FLOAT, MPI_SUM, state.comm);
  if (outcome(state, code, "MPI_Reduce_scatter")) return 1;
  if (to != out) std::memcpy(out, to, sizeof(float) * aside.size());
  return 0;
}

int exchange(void* opaque, const void* const* send, const int64_t* send_bytes, void* const* receive,
             const int64_t* receive_bytes) {
  State& state = of(opaque);
  std::vector<MPI_Request> requests;
  int code = MPI_SUCCESS;
  const auto each_piece = [&](int64_t bytes, const auto& post) {
    for (int64_t begin = 0; begin < bytes && code == MPI_SUCCESS; begin += kMostElements) {
      requests.emplace_back();
      post(begin, static_cast<int>(bytes - begin < kMostElements ? bytes - begin : kMostElements));
    }
  };
  for (int step = 1; step < state.size; ++step) {
    const int from = (state.rank - step + state.size) % state.size;
    each_piece(receive_bytes[from], [&](int64_t begin, int length) {
      code = MPI_Irecv(static_cast<char*>(receive[from]) + begin, length, MPI_BYTE, from, 0,
                       state.comm, &requests.back());
    });
  }
  for (int step = 1; step < state.size; ++step) {
    const int to = (state.rank + step) % state.size;
    each_piece(send_bytes[to], [&](int64_t begin, int length) {
      code = MPI_Isend(static_cast<const char*>(send[to]) + begin, length, MPI_BYTE, to, 0,
                       state.comm, &requests.back());
    });
  }
  if (code == MPI_SUCCESS)
    code = MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  return outcome(state, code, "an exchange by MPI_Isend and MPI_Irecv");
}

int all_gather(void* opaque, const void* in, void* out, const int64_t* bytes) {
  State& state = of(opaque);
  std::vector<int> each, offsets;
  int64_t total = 0, before = 0;
  for (int rank = 0; rank < state.size; ++rank) {
    if (rank == state.rank) before = total;
    each.push_back(static_cast<int>(bytes[rank]));
    offsets.push_back(static_cast<int>(total));
    total += bytes[rank];
  }
  char* whole = static_cast<char*>(out);
  if (total <= INT_MAX) {
    const bool in_place = in == whole + before;
    const int code = MPI_Allgatherv(in_place ? MPI_IN_PLACE : in,
                                    in_place ? 0 : each[static_cast<size_t>(state.rank)], MPI_BYTE,
                                    out, each.data(), offsets.data(), MPI_BYTE, state.comm);
    return outcome(state, code, "MPI_Allgatherv");
  }
  if (in != whole + before) std::memcpy(whole + before, in, static_cast<size_t>(bytes[state.rank]));
  std::vector<const void*> send(static_cast<size_t>(state.size), whole + before);
  std::vector<int64_t> sent(static_cast<size_t>(state.size), bytes[state.rank]);
  std::vector<void*> receive;
  for (int64_t rank = 0, at = 0; rank < state.size; at += bytes[rank++])
    receive.push_back(whole + at);
  return exchange(opaque, send.data(), sent.data(), receive.data(), bytes);
}

int broadcast(void* opaque, void* data, int64_t bytes, int root) {
  State& state = of(opaque);
  for (int64_t begin = 0; begin < bytes; begin += kMostElements) {
    const auto length =
        static_cast<int>(bytes - begin < kMostElements ? bytes - begin : kMostElements);
    const int code =
        MPI_Bcast(static_cast<char*>(data) + begin, length, MPI_BYTE, root, state.comm);
    if (outcome(state, code, "MPI_Bcast")) return 1;
  }
  return 0;
}

int barrier(void* opaque) {
  return outcome(of(opaque), MPI_Barrier(of(opaque).comm), "MPI_Barrier");
}

const char* last_error(void* opaque) {
  return of(opaque).error.c_str();
}

void close_state(void* opaque) {
  State* state = static_cast<State*>(opaque);
  MPI_Comm_free(&state->comm);
  if (state->initialised_here) MPI_Finalize();
  delete state;
}

std::string library_name() {
#ifdef OPEN_MPI
  return "Open MPI " + std::to_string(OMPI_MAJOR_VERSION) + "." +
         std::to_string(OMPI_MINOR_VERSION) + "." + std::to_string(OMPI_RELEASE_VERSION);
#else
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  // MPICH returns "MPICH Version:\t4.0.2\n...": keeps the first line, with spaces for tabs.
  std::string name;
  for (const char* c = text; *c != 0 && *c != '\n'; ++c)
    if (*c != '\t' && *c != ':')
      name += *c;
    else if (*c == '\t')
      name += ' ';
  return name;
#endif
}

}  // namespace

extern "C" int ridgeline_plugin_open(const RidgelinePluginOptions* options,
                                     RidgelinePluginCalls* calls, char* error, size_t error_bytes) {
  if (options->abi != RIDGELINE_PLUGIN_ABI) {
    std::snprintf(error, error_bytes, "the plugin has interface %d, and the program %d",
                  RIDGELINE_PLUGIN_ABI, options->abi);
    return 1;
  }
  auto* state = new State;
  int ready = 0;
  MPI_Initialized(&ready);
  if (!ready) {
    int given = 0;
    // Calls are serialized, but come from different threads.
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given) != MPI_SUCCESS ||
        given < MPI_THREAD_SERIALIZED) {
      std::snprintf(error, error_bytes, "MPI_Init_thread gives thread level %d, and %d is needed",
                    given, MPI_THREAD_SERIALIZED);
      delete state;
      return 1;
    }
    state->initialised_here = true;
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &state->comm);
  MPI_Comm_set_errhandler(state->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(state->comm, &state->rank);
  MPI_Comm_size(state->comm, &state->size);
  *calls = {};
  calls->abi = RIDGELINE_PLUGIN_ABI;
  calls->rank = state->rank;
  calls->size = state->size;
  std::snprintf(calls->library, sizeof calls->library, "%s", library_name().c_str());
  calls->state = state;
  calls->all_reduce_f32 = all_reduce_f32;
  calls->reduce_scatter_f32 = reduce_scatter_f32;
  calls->all_gather = all_gather;
  calls->broadcast = broadcast;
  calls->exchange = exchange;
  calls->barrier = barrier;
  calls->last_error = last_error;
  calls->close = close_state;
  return 0;
}
