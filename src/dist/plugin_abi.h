/* The C interface between the program and its plugins, which are built where a library with headers
 * of its own (MPI, Gloo) is installed, and opened at run time. Plain C, so that the two need not
 * share a C++ library. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RIDGELINE_PLUGIN_ABI = 1 };

/* Keys and values that all ranks share while they find each other. */
typedef struct RidgelinePluginStore {
  void* context;
  /* 0: done. */
  int (*set)(void* context, const char* key, const void* value, size_t bytes);
  /* Waits for the key; the length of its value, of which up to `capacity` bytes are copied, or -1.
   */
  long (*get)(void* context, const char* key, void* value, size_t capacity, double timeout_s);
} RidgelinePluginStore;

typedef struct RidgelinePluginOptions {
  int abi;
  int rank, size;
  const char* local_address; /* of this rank, by which the others reach it */
  double timeout_s;          /* for one operation */
  RidgelinePluginStore store;
} RidgelinePluginOptions;

/* Blocking calls; one thread at a time makes them. Each gives 0, or another number, after which
 * last_error says why. */
typedef struct RidgelinePluginCalls {
  int abi;
  int rank, size;    /* as the library counts them */
  char library[128]; /* "Open MPI 4.1.4" */
  void* state;
  int (*all_reduce_f32)(void* state, const float* in, float* out, int64_t count);
  /* Null: there is none, and exchange() serves. `counts` by rank. */
  int (*reduce_scatter_f32)(void* state, const float* in, float* out, const int64_t* counts);
  /* `in` is this rank's part, perhaps already within `out`; `bytes` by rank. */
  int (*all_gather)(void* state, const void* in, void* out, const int64_t* bytes);
  int (*broadcast)(void* state, void* data, int64_t bytes, int root);
  /* Sends to and receives from each other rank; what stands at this rank's place is not looked at.
   */
  int (*exchange)(void* state, const void* const* send, const int64_t* send_bytes,
                  void* const* receive, const int64_t* receive_bytes);
  int (*barrier)(void* state);
  const char* (*last_error)(void* state);
  void (*close)(void* state);
} RidgelinePluginCalls;

/* 0: `calls` is filled in; else `error` says why. */
typedef int RidgelinePluginOpen(const RidgelinePluginOptions* options, RidgelinePluginCalls* calls,
                                char* error, size_t error_bytes);
int ridgeline_plugin_open(const RidgelinePluginOptions* options, RidgelinePluginCalls* calls,
                          char* error, size_t error_bytes);

#ifdef __cplusplus
}
#endif
