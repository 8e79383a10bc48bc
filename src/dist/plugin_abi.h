/* The C interface between the program and its plugins, which are built where MPI or Gloo is
 * installed, and opened at run time. Plain C, so that both may use different C++ libraries. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RIDGELINE_PLUGIN_ABI = 1 };

/* Keys and values shared by all ranks, for rendezvous. */
typedef struct RidgelinePluginStore {
  void* context;
  /* Returns 0 on success. */
  int (*set)(void* context, const char* key, const void* value, size_t bytes);
  /* Waits for the key and copies up to `capacity` bytes. Returns the value's length, or -1. */
  long (*get)(void* context, const char* key, void* value, size_t capacity, double timeout_s);
} RidgelinePluginStore;

typedef struct RidgelinePluginOptions {
  int abi;
  int rank, size;
  const char* local_address; /* at which other ranks reach this one */
  double timeout_s;          /* for one operation */
  RidgelinePluginStore store;
} RidgelinePluginOptions;

/* Blocking calls, made by one thread at a time. Each returns 0 on success; otherwise last_error
 * returns the reason. */
typedef struct RidgelinePluginCalls {
  int abi;
  int rank, size;    /* in the library's numbering */
  char library[128]; /* "Open MPI 4.1.4" */
  void* state;
  int (*all_reduce_f32)(void* state, const float* in, float* out, int64_t count);
  /* Null: not available, and exchange() is used instead. `counts` by rank. */
  int (*reduce_scatter_f32)(void* state, const float* in, float* out, const int64_t* counts);
  /* `in` is this rank's part, and may lie at its place in `out`; `bytes` by rank. */
  int (*all_gather)(void* state, const void* in, void* out, const int64_t* bytes);
  int (*broadcast)(void* state, void* data, int64_t bytes, int root);
  /* Sends to and receives from every other rank; this rank's own entries are ignored. */
  int (*exchange)(void* state, const void* const* send, const int64_t* send_bytes,
                  void* const* receive, const int64_t* receive_bytes);
  int (*barrier)(void* state);
  const char* (*last_error)(void* state);
  void (*close)(void* state);
} RidgelinePluginCalls;

/* Returns 0 and fills in `calls`; otherwise `error` gets the reason. */
typedef int RidgelinePluginOpen(const RidgelinePluginOptions* options, RidgelinePluginCalls* calls,
                                char* error, size_t error_bytes);
int ridgeline_plugin_open(const RidgelinePluginOptions* options, RidgelinePluginCalls* calls,
                          char* error, size_t error_bytes);

#ifdef __cplusplus
}
#endif
