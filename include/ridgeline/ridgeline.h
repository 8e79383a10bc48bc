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
 * examples/attention_c is the whole program; docs/library.md lists what is supported.
 *
 * Every function that can fail returns a status and sets an error message for its thread. No
 * function prints, throws or terminates the process. A context may be used from several threads at
 * once: their calls are serialized, but kernels of different calls compile concurrently, and
 * prepared calls do not wait for compilation. The memory that a tensor describes (shape, strides)
 * must exist: that is the one thing that cannot be checked.
 */
#ifndef RIDGELINE_RIDGELINE_H
#define RIDGELINE_RIDGELINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RL_API __attribute__((visibility("default")))

/* 10000 major + 100 minor + patch, of this header; rl_version() returns that of the library. */
#define RL_VERSION 100
RL_API uint32_t rl_version(void);

typedef enum rl_status {
  RL_OK = 0,
  RL_ERROR_INVALID_ARGUMENT = 1, /* a null pointer, a shape, a stride, a dtype, a wrong device */
  RL_ERROR_UNSUPPORTED = 2,      /* a valid request that this library or device does not support */
  RL_ERROR_OUT_OF_MEMORY = 3,
  RL_ERROR_DEVICE = 4,   /* the GPU, its driver or the operating system failed */
  RL_ERROR_INTERNAL = 5, /* a bug in the library */
  RL_ERROR_NOT_READY = 6 /* the stream is captured, and the call needs a kernel that is not compiled
                            or memory that is not allocated: warm it up before the capture */
} rl_status;

/* "RL_ERROR_UNSUPPORTED"; "RL_ERROR_UNKNOWN" for a number that is not a status. */
RL_API const char* rl_status_name(rl_status status);
/* Describes the last call of this thread that failed: what was found, what was expected. Empty
 * before the first failure. Valid until the next failure in this thread. */
RL_API const char* rl_last_error(void);

/* Tensors have the layout and the codes of DLPack: a DLTensor can be passed as it is. */
enum { RL_CPU = 1, RL_CUDA = 2 }; /* rl_device.type: kDLCPU, kDLCUDA */
/* rl_dtype.code: kDLInt, kDLFloat, kDLBfloat, kDLBool */
enum { RL_INT = 0, RL_FLOAT = 2, RL_BFLOAT = 4, RL_BOOL = 6 };

typedef struct rl_device {
  int32_t type;
  int32_t id; /* CUDA's device ordinal; 0 for the CPU */
} rl_device;

typedef struct rl_dtype {
  uint8_t code;
  uint8_t bits;   /* fp32: {RL_FLOAT, 32, 1}; fp16: {RL_FLOAT, 16, 1}; bf16: {RL_BFLOAT, 16, 1} */
  uint16_t lanes; /* 1; operands of score functions also i32 {RL_INT, 32, 1}, {RL_BOOL, 8, 1} */
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
  int32_t threads;     /* CPU threads, including the caller's; 0: as many as are available */
  int32_t uses_stream; /* 1: GPU work is queued on `stream`; 0: on the context's own stream */
  void* stream; /* a CUstream or cudaStream_t that outlives the context; NULL: the default stream. A
                   call may pass another one */
  const char* cache_dir; /* of compiled GPU kernels; NULL: the user's cache; "off": none */
} rl_context_params;

typedef struct rl_context rl_context;

/* NULL params: the CPU with all its threads. */
RL_API rl_status rl_context_create(const rl_context_params* params, rl_context** context);
/* Waits for the context's GPU work. NULL is allowed. No other call may be in flight. */
RL_API void rl_context_destroy(rl_context* context);
/* Waits until the work on the context's stream is done; the caller synchronizes streams that it
 * passed to calls. On the CPU, work is done when a call returns. */
RL_API rl_status rl_context_synchronize(rl_context* context);

/* A pointwise function f of scores, as a list of nodes that read earlier nodes; the last one is the
 * result. Attention computes softmax(f(scale q k^T) + mask) v. For example ALiBi, a learned slope
 * per head times the distance:
 *
 *   const rl_score_node alibi[] = {{RL_SCORE, {0}, 0},           // 0: scale q k^T
 *                                  {RL_SCORE_OPERAND, {0}, 0},   // 1: slopes, [1, heads, 1, 1]
 *                                  {RL_SCORE_KEY, {0}, 0},       // 2
 *                                  {RL_SCORE_QUERY, {0}, 0},     // 3
 *                                  {RL_SCORE_SUBTRACT, {2, 3}, 0},
 *                                  {RL_SCORE_MULTIPLY, {1, 4}, 0},
 *                                  {RL_SCORE_ADD, {0, 5}, 0}};
 *   rl_score_function* function = NULL;
 *   if (rl_score_function_create(alibi, 7, &function) != RL_OK) return fail(rl_last_error());
 *
 * Numbers are fp32. Arithmetic, and comparisons with numbers, convert positions and integers to
 * numbers; two integers are compared as such. Conditions are results of comparisons, of AND, OR and
 * NOT, or operands. A score of -infinity masks the key.
 */
typedef enum rl_score_op {
  RL_SCORE = 0,
  RL_SCORE_CONSTANT = 1, /* `value` */
  RL_SCORE_BATCH = 2,    /* BATCH to KEY: the indices of the score, as integers */
  RL_SCORE_HEAD = 3,
  RL_SCORE_QUERY = 4,
  RL_SCORE_KEY = 5,
  RL_SCORE_OPERAND = 6, /* operand inputs[0] of the call: fp32, bf16 or fp16 */
  RL_SCORE_INT_OPERAND = 7,
  RL_SCORE_BOOL_OPERAND = 8,
  /* unary arithmetic */
  RL_SCORE_NEGATE = 16,
  RL_SCORE_EXP = 17,
  RL_SCORE_LOG = 18,
  RL_SCORE_SQRT = 19,
  RL_SCORE_RSQRT = 20,
  RL_SCORE_SIN = 21,
  RL_SCORE_COS = 22,
  RL_SCORE_TANH = 23,
  RL_SCORE_SIGMOID = 24,
  RL_SCORE_ABS = 25,
  /* binary arithmetic */
  RL_SCORE_ADD = 32,
  RL_SCORE_SUBTRACT = 33,
  RL_SCORE_MULTIPLY = 34,
  RL_SCORE_DIVIDE = 35,
  RL_SCORE_MAXIMUM = 36,
  RL_SCORE_MINIMUM = 37,
  /* comparisons of two numbers or two integers */
  RL_SCORE_LESS = 48,
  RL_SCORE_LESS_EQUAL = 49,
  RL_SCORE_EQUAL = 50,
  RL_SCORE_NOT_EQUAL = 51,
  RL_SCORE_GREATER = 52,
  RL_SCORE_GREATER_EQUAL = 53,
  /* on conditions */
  RL_SCORE_AND = 64,
  RL_SCORE_OR = 65,
  RL_SCORE_NOT = 66,
  RL_SCORE_WHERE = 67 /* inputs[1] where the condition inputs[0] holds, else inputs[2] */
} rl_score_op;

typedef struct rl_score_node {
  int32_t op; /* rl_score_op */
  int32_t inputs[3];
  double value;
} rl_score_node;

typedef struct rl_score_function rl_score_function;

/* The nodes are copied. A function is not tied to a context, may be used by several threads at
 * once, and may be destroyed while calls that use it are running on a GPU. */
RL_API rl_status rl_score_function_create(const rl_score_node* nodes, size_t count,
                                          rl_score_function** function);
RL_API void rl_score_function_destroy(rl_score_function* function);

/* Which keys a query may see. Query i has key position i, or i + keys - queries. */
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
  const rl_tensor* log_sum_exp; /* NULL: not computed; the backward needs it */
  double scale;                 /* of the scores; 0: 1 / sqrt(head_dim) */
  int64_t window; /* a query sees this many keys, the last one at its position; 0: no window. Needs
                     `causal` */
  int32_t causal; /* rl_causal */
  int32_t deterministic; /* 0 or 1: the forward is bitwise reproducible either way */
  void* workspace;       /* device memory, aligned to 256 bytes; NULL: the context uses its own */
  size_t workspace_bytes;
  const rl_score_function* score;   /* NULL: the identity */
  const rl_tensor* const* operands; /* of the score function, each [batch, heads, queries, keys]
                                       with size 1 where it broadcasts; their strides may be
                                       negative: table[h, i - j] is read in place */
  size_t operand_count;
  void* stream;        /* the GPU stream of this call; see uses_stream */
  int32_t uses_stream; /* 1: the call is queued on `stream`; 0: on the context's stream */
  int32_t reserved;    /* 0 */
} rl_attention_forward_params;

RL_API rl_status rl_attention_forward(rl_context* context,
                                      const rl_attention_forward_params* params);
/* How much workspace the same call needs; may be 0. Reads no elements. */
RL_API rl_status rl_attention_forward_workspace(rl_context* context,
                                                const rl_attention_forward_params* params,
                                                size_t* bytes);
/* Prepares everything that the same call needs: compiles and loads kernels, and allocates the
 * context's workspace. Launches nothing and reads no elements; `data` of tensors may be NULL. */
RL_API rl_status rl_attention_forward_warm_up(rl_context* context,
                                              const rl_attention_forward_params* params);

/* The gradients of q, k and v, given the gradient d_out of out and the forward's results. */
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
  int32_t deterministic; /* 1: bitwise reproducible, on a GPU at some cost; 0: any order of sums */
  void* workspace;
  size_t workspace_bytes;
  const rl_score_function* score; /* these three as in the forward */
  const rl_tensor* const* operands;
  size_t operand_count;
  const rl_tensor* const*
      d_operands; /* gradients of the floating-point operands, contiguous, each like its operand or
                     in fp32; NULL, or a NULL entry: not computed. That of an operand with opposite
                     strides along queries and keys, such as table[h, i - j], may also be the sums
                     along its diagonals: [batch, heads, 1, queries + keys - 1], where sum n belongs
                     to query i and key j with j - i = n - (queries - 1) */
  void* stream;
  int32_t uses_stream;
  int32_t reserved;
} rl_attention_backward_params;

RL_API rl_status rl_attention_backward(rl_context* context,
                                       const rl_attention_backward_params* params);
RL_API rl_status rl_attention_backward_workspace(rl_context* context,
                                                 const rl_attention_backward_params* params,
                                                 size_t* bytes);
RL_API rl_status rl_attention_backward_warm_up(rl_context* context,
                                               const rl_attention_backward_params* params);

/* A forward or backward that runs repeatedly on tensors of one layout: parameters are checked and
 * kernels loaded once, and each run passes only addresses. For latency-critical callers:
 *
 *   rl_attention_call* call = NULL;
 *   if (rl_attention_forward_prepare(context, &forward, &call) != RL_OK) ...
 *   rl_attention_run run = {sizeof run, call, stream, NULL, 0, {q, k, v, out, log_sum_exp}};
 *   if (rl_attention_call_run(&run) != RL_OK) ...
 *
 * What the parameters point to is copied, except the score function: it and the context must
 * outlive the call. `data` of the tensors may be NULL, or addresses with the alignment of the runs:
 * where an address modulo 16 bytes differs, a run prepares the call again, which may compile
 * kernels. */
typedef struct rl_attention_call rl_attention_call;
RL_API rl_status rl_attention_forward_prepare(rl_context* context,
                                              const rl_attention_forward_params* params,
                                              rl_attention_call** call);
RL_API rl_status rl_attention_backward_prepare(rl_context* context,
                                               const rl_attention_backward_params* params,
                                               rl_attention_call** call);
/* No run of the call may be in flight. NULL is allowed. */
RL_API void rl_attention_call_destroy(rl_attention_call* call);

enum { RL_MOST_TENSORS = 21 }; /* of a backward with all operands and their gradients */
typedef struct rl_attention_run {
  size_t size; /* sizeof the struct, or the bytes up to the last address that the call uses */
  rl_attention_call* call;
  void* stream;    /* read if the call was prepared with uses_stream */
  void* workspace; /* both as in the parameters */
  size_t workspace_bytes;
  /* Addresses of first elements, in the order of the parameters: q, k, v, out and log_sum_exp, if
   * it was given; for a backward d_out, d_q, d_k and d_v; then operands; then their gradients that
   * were given. */
  void* data[RL_MOST_TENSORS];
} rl_attention_run;
RL_API rl_status rl_attention_call_run(const rl_attention_run* run);

#ifdef __cplusplus
}
#endif

#endif
