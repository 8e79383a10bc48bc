/* Attention with its gradients on your own buffers: the C interface of Ridgeline.
 *
 *   #include <ridgeline/ridgeline.h>
 *
 *   int64_t shape[4] = {2, 8, 1024, 64};  // batch, heads, sequence, head_dim
 *   rl_device cpu = {RL_CPU, 0};
 *   rl_dtype fp32 = {RL_FLOAT, 32, 1};
 *   rl_tensor q = {q_data, cpu, 4, fp32, shape, NULL, 0};  // no strides: contiguous
 *   rl_tensor k = {k_data, cpu, 4, fp32, shape, NULL, 0};
 *   rl_tensor v = {v_data, cpu, 4, fp32, shape, NULL, 0};
 *   rl_tensor out = {out_data, cpu, 4, fp32, shape, NULL, 0};
 *   rl_tensor log_sum_exp = {lse_data, cpu, 3, fp32, shape, NULL, 0};  // the first three sizes
 *
 *   rl_context* context = NULL;
 *   if (rl_context_create(NULL, &context) != RL_OK) return fail(rl_last_error());
 *   rl_attention_forward_params forward = {.size = sizeof forward,
 *                                          .q = &q, .k = &k, .v = &v,
 *                                          .out = &out, .log_sum_exp = &log_sum_exp,
 *                                          .causal = RL_CAUSAL_TOP_LEFT};
 *   if (rl_attention_forward(context, &forward) != RL_OK) return fail(rl_last_error());
 *   rl_attention_backward_params backward = {.size = sizeof backward,
 *                                            .q = &q, .k = &k, .v = &v,
 *                                            .out = &out, .log_sum_exp = &log_sum_exp,
 *                                            .d_out = &d_out,
 *                                            .d_q = &d_q, .d_k = &d_k, .d_v = &d_v,
 *                                            .causal = RL_CAUSAL_TOP_LEFT};
 *   if (rl_attention_backward(context, &backward) != RL_OK) return fail(rl_last_error());
 *   rl_context_destroy(context);
 *
 * examples/attention_c is the whole program; docs/library.md says what is served and what is not.
 *
 * Every function that can fail returns a status and leaves a message for its thread. No function
 * prints, throws or ends the process. A context may be used from several threads at once: their
 * calls run one after the other. Memory that a tensor claims (shape, strides) has to be there:
 * that is the one thing that cannot be checked.
 */
#ifndef RIDGELINE_RIDGELINE_H
#define RIDGELINE_RIDGELINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RL_API __attribute__((visibility("default")))

/* 10000 major + 100 minor + patch, of this header; rl_version() gives that of the library. */
#define RL_VERSION 100
RL_API uint32_t rl_version(void);

typedef enum rl_status {
  RL_OK = 0,
  RL_ERROR_INVALID_ARGUMENT = 1, /* a null pointer, a shape, a stride, a dtype, a wrong device */
  RL_ERROR_UNSUPPORTED = 2,      /* a valid request that this library or device does not serve */
  RL_ERROR_OUT_OF_MEMORY = 3,
  RL_ERROR_DEVICE = 4,  /* the GPU, its driver or the operating system failed */
  RL_ERROR_INTERNAL = 5 /* a bug of the library */
} rl_status;

/* "RL_ERROR_UNSUPPORTED"; of a number that is no status: "RL_ERROR_UNKNOWN". */
RL_API const char* rl_status_name(rl_status status);
/* What went wrong in the last call of this thread that failed: what was found, what was expected.
 * Empty before the first. Valid until the next failure in this thread. */
RL_API const char* rl_last_error(void);

/* Tensors have the layout and the codes of DLPack: a DLTensor can be passed as it is. */
enum { RL_CPU = 1, RL_CUDA = 2 };     /* rl_device.type: kDLCPU, kDLCUDA */
enum { RL_FLOAT = 2, RL_BFLOAT = 4 }; /* rl_dtype.code: kDLFloat, kDLBfloat */

typedef struct rl_device {
  int32_t type;
  int32_t id; /* number of the GPU as CUDA counts; 0 for the CPU */
} rl_device;

typedef struct rl_dtype {
  uint8_t code;
  uint8_t bits;   /* fp32: {RL_FLOAT, 32, 1}; fp16: {RL_FLOAT, 16, 1}; bf16: {RL_BFLOAT, 16, 1} */
  uint16_t lanes; /* 1 */
} rl_dtype;

typedef struct rl_tensor {
  void* data;
  rl_device device;
  int32_t ndim;
  rl_dtype dtype;
  const int64_t* shape;
  const int64_t* strides; /* in elements, not negative; NULL: contiguous, the last axis innermost */
  uint64_t byte_offset;   /* from `data` to the first element */
} rl_tensor;

/* Parameter structs begin with their size, so that they can grow: set `size` to sizeof of the
 * struct and all other bytes to zero before filling it in. */

typedef struct rl_context_params {
  size_t size;
  rl_device device;
  int32_t threads;     /* of the CPU, the caller's included; 0: as many as the machine gives */
  int32_t uses_stream; /* 1: a GPU's work is queued on `stream`; 0: on a stream of the context */
  void* stream; /* a CUstream or cudaStream_t, which outlives the context; NULL: the default */
  const char* cache_dir; /* where GPU kernels are kept; NULL: the user's cache; "off": nowhere */
} rl_context_params;

typedef struct rl_context rl_context;

/* Without params: the CPU with all its threads. */
RL_API rl_status rl_context_create(const rl_context_params* params, rl_context** context);
/* Waits for work of the context that is queued on a GPU. NULL is allowed. No other call may be
 * under way. */
RL_API void rl_context_destroy(rl_context* context);
/* Waits until all work of the context is done. On the CPU it is when a call returns. */
RL_API rl_status rl_context_synchronize(rl_context* context);

/* Which keys a query may see. Query i stands at key position i, or at i + keys - queries. */
typedef enum rl_causal {
  RL_CAUSAL_NONE = 0,        /* all */
  RL_CAUSAL_TOP_LEFT = 1,    /* those up to its position i */
  RL_CAUSAL_BOTTOM_RIGHT = 2 /* those up to its position i + keys - queries */
} rl_causal;

/* out = softmax(scale q k^T + mask) v, with q and out [batch, heads, queries, head_dim], k and v
 * [batch, key_heads, keys, head_dim]; heads is a multiple of key_heads, and query head h reads key
 * head h / (heads / key_heads). All have one dtype: fp32, bf16 or fp16. log_sum_exp is fp32 [batch,
 * heads, queries]: the natural logarithm of the sum of exp(scores) of each query. A query that sees
 * no key gets out 0, log_sum_exp -infinity and gradients 0. */
typedef struct rl_attention_forward_params {
  size_t size;
  const rl_tensor* q;
  const rl_tensor* k;
  const rl_tensor* v;
  const rl_tensor* out;
  const rl_tensor* log_sum_exp; /* NULL: not wanted; a backward needs it */
  double scale;                 /* of the scores; 0: 1 / sqrt(head_dim) */
  int64_t window; /* a query sees this many keys, the last one at its position; 0: no window. Needs
                     `causal` */
  int32_t causal; /* rl_causal */
  int32_t deterministic; /* 0 or 1: a forward gives the same bits from run to run either way */
  void* workspace; /* memory of the device, aligned to 256 bytes; NULL: the context takes its own */
  size_t workspace_bytes;
} rl_attention_forward_params;

RL_API rl_status rl_attention_forward(rl_context* context,
                                      const rl_attention_forward_params* params);
/* How much workspace the same call needs; may be 0. Reads no element. */
RL_API rl_status rl_attention_forward_workspace(rl_context* context,
                                                const rl_attention_forward_params* params,
                                                size_t* bytes);

/* The gradients of q, k and v for the gradient d_out of out, given what the forward left. */
typedef struct rl_attention_backward_params {
  size_t size;
  const rl_tensor* q;
  const rl_tensor* k;
  const rl_tensor* v;
  const rl_tensor* out;
  const rl_tensor* log_sum_exp;
  const rl_tensor* d_out;
  const rl_tensor* d_q;
  const rl_tensor* d_k;
  const rl_tensor* d_v;
  double scale; /* these three as in the forward */
  int64_t window;
  int32_t causal;
  int32_t deterministic; /* 1: the same bits from run to run, on a GPU at some cost; 0: any order */
  void* workspace;
  size_t workspace_bytes;
} rl_attention_backward_params;

RL_API rl_status rl_attention_backward(rl_context* context,
                                       const rl_attention_backward_params* params);
RL_API rl_status rl_attention_backward_workspace(rl_context* context,
                                                 const rl_attention_backward_params* params,
                                                 size_t* bytes);

#ifdef __cplusplus
}
#endif

#endif
