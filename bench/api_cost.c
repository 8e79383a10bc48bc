/* Measures the host cost of calls of libridgeline.so, and checks their values:
 *
 *   cc -O2 -Iinclude bench/api_cost.c -o api_cost -Lbuild/release -lridgeline -lm -ldl
 *   LD_LIBRARY_PATH=build/release ./api_cost            on the first GPU
 *   LD_LIBRARY_PATH=build/release ./api_cost --no-check with a driver that stands in for NVIDIA's
 *
 * Calls are queued in batches on a stream and timed by the host's clock until they return; waiting
 * for the GPU is not timed. Values are compared with fp64 loops. Exit code 0: all values are right
 * and every cost is within 6 us, and 2.5 us more per further launch; 1 otherwise. */
#include <dlfcn.h>
#include <math.h>
#include <ridgeline/ridgeline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 1, HEADS = 4, LENGTH = 128, WIDTH = 64 };
enum { ROWS = BATCH * HEADS * LENGTH, COUNT = ROWS * WIDTH };
enum { CALLS = 100, ROUNDS = 101 };
enum { Q, K, V, OUT, LSE, D_OUT, D_Q, D_K, D_V, TENSORS };
static const char* const names[] = {"q",     "k",   "v",   "out", "log_sum_exp",
                                    "d_out", "d_q", "d_k", "d_v"};

static int (*init)(unsigned), (*get)(int*, int), (*retain)(void**, int), (*set_current)(void*);
static int (*create_stream)(void**, unsigned, int), (*synchronize)(void*);
static int (*allocate)(unsigned long long*, size_t);
static int (*upload)(unsigned long long, const void*, size_t);
static int (*download)(void*, unsigned long long, size_t);

static int open_driver(void) {
  char path[4096] = "libcuda.so.1";
  const char* folder = getenv("RIDGELINE_CUDA_LIBRARIES");
  if (folder != NULL) snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
  void* library = dlopen(path, RTLD_NOW);
  if (library == NULL) return 0;
  *(void**)&init = dlsym(library, "cuInit");
  *(void**)&get = dlsym(library, "cuDeviceGet");
  *(void**)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
  *(void**)&set_current = dlsym(library, "cuCtxSetCurrent");
  *(void**)&create_stream = dlsym(library, "cuStreamCreateWithPriority");
  *(void**)&synchronize = dlsym(library, "cuStreamSynchronize");
  *(void**)&allocate = dlsym(library, "cuMemAlloc_v2");
  *(void**)&upload = dlsym(library, "cuMemcpyHtoD_v2");
  *(void**)&download = dlsym(library, "cuMemcpyDtoH_v2");
  int device = 0;
  void* context = NULL;
  return init(0) == 0 && get(&device, 0) == 0 && retain(&context, device) == 0 &&
         set_current(context) == 0;
}

static double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

/* Conversions between bf16 or fp32 in memory and double. */
static void store(void* to, int i, double value, int bits) {
  float single = (float)value;
  uint32_t word;
  memcpy(&word, &single, 4);
  if (bits == 32) {
    ((float*)to)[i] = single;
    return;
  }
  word += 0x7fff + (word >> 16 & 1);
  ((uint16_t*)to)[i] = (uint16_t)(word >> 16);
}
static double load(const void* from, int i, int bits) {
  if (bits == 32) return ((const float*)from)[i];
  const uint32_t word = (uint32_t)((const uint16_t*)from)[i] << 16;
  float single;
  memcpy(&single, &word, 4);
  return single;
}

static double value[TENSORS][COUNT], want[TENSORS][COUNT];

static double dot(const double* a, const double* b) {
  double sum = 0;
  for (int i = 0; i < WIDTH; ++i) sum += a[i] * b[i];
  return sum;
}

/* Causal attention and its gradients in fp64, one query after the other. */
static void reference(void) {
  memset(want, 0, sizeof want);
  for (int query = 0; query < ROWS; ++query) {
    const int head = query / LENGTH * LENGTH, at = query * WIDTH;
    double weight[LENGTH], d_weight[LENGTH], sum = 0, delta = 0;
    const int keys = query - head + 1;
    for (int j = 0; j < keys; ++j)
      sum += weight[j] = exp(dot(value[Q] + at, value[K] + (head + j) * WIDTH) / sqrt(WIDTH));
    want[LSE][query] = log(sum);
    for (int j = 0; j < keys; ++j) {
      weight[j] /= sum;
      d_weight[j] = dot(value[D_OUT] + at, value[V] + (head + j) * WIDTH);
      delta += weight[j] * d_weight[j];
    }
    for (int j = 0; j < keys; ++j)
      for (int i = 0; i < WIDTH; ++i) {
        const int key = (head + j) * WIDTH + i;
        const double d_score = weight[j] * (d_weight[j] - delta) / sqrt(WIDTH);
        want[OUT][at + i] += weight[j] * value[V][key];
        want[D_V][key] += weight[j] * value[D_OUT][at + i];
        want[D_Q][at + i] += d_score * value[K][key];
        want[D_K][key] += d_score * value[Q][at + i];
      }
  }
}

static int by_size(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return (difference > 0) - (difference < 0);
}

typedef struct Calls {
  rl_context* context;
  rl_attention_forward_params forward;
  rl_attention_backward_params backward;
  void* stream;
  rl_attention_run prepared[2]; /* forward, backward */
} Calls;

enum { BACKWARD = 1, PREPARED = 2 };

static rl_status call(const Calls* calls, int kind) {
  if (kind & PREPARED) return rl_attention_call_run(&calls->prepared[kind & BACKWARD]);
  return kind & BACKWARD ? rl_attention_backward(calls->context, &calls->backward)
                         : rl_attention_forward(calls->context, &calls->forward);
}

static int fail(const char* what) {
  printf("%s: %s\n", what, rl_last_error());
  return 0;
}

/* Prints the median cost over batches; returns 0 if a call failed or exceeds its limit. */
static int time_calls(const Calls* calls, const char* name, int kind, int launches) {
  double us[ROUNDS];
  for (int round = 0; round < ROUNDS; ++round) {
    const double begin = now_us();
    for (int i = 0; i < CALLS; ++i)
      if (call(calls, kind) != RL_OK) return fail(name);
    us[round] = (now_us() - begin) / CALLS;
    synchronize(calls->stream);
  }
  qsort(us, ROUNDS, sizeof us[0], by_size);
  const double bar = 6 + 2.5 * (launches - 1);
  printf("%-28s %d launches  %6.2f us a call (least %.2f)  bar %.1f  %s\n", name, launches,
         us[ROUNDS / 2], us[0], bar, us[ROUNDS / 2] <= bar ? "ok" : "TOO MUCH");
  return us[ROUNDS / 2] <= bar;
}

static int run(rl_context* context, void* stream, int bits, int check) {
  const int64_t shape[4] = {BATCH, HEADS, LENGTH, WIDTH};
  const rl_dtype dtype = {bits == 32 ? RL_FLOAT : RL_BFLOAT, (uint8_t)bits, 1};
  const rl_dtype fp32 = {RL_FLOAT, 32, 1};
  static char bytes[COUNT * 4];
  unsigned long long device[TENSORS];
  rl_tensor t[TENSORS];
  for (int n = 0; n < TENSORS; ++n) {
    for (int i = 0; i < COUNT; ++i) {
      store(bytes, i, sin(0.37 * i + 1.3 * n), bits);
      value[n][i] = load(bytes, i, bits);
    }
    if (allocate(&device[n], sizeof bytes) != 0 || upload(device[n], bytes, sizeof bytes) != 0)
      return 0;
    const rl_tensor tensor = {(void*)(uintptr_t)device[n], {RL_CUDA, 0}, n == LSE ? 3 : 4,
                              n == LSE ? fp32 : dtype, shape, NULL, 0};
    t[n] = tensor;
  }
  Calls calls = {context,
                       {.size = sizeof calls.forward, .q = &t[Q], .k = &t[K], .v = &t[V],
                        .out = &t[OUT], .log_sum_exp = &t[LSE], .causal = RL_CAUSAL_TOP_LEFT},
                       {.size = sizeof calls.backward, .q = &t[Q], .k = &t[K], .v = &t[V],
                        .out = &t[OUT], .log_sum_exp = &t[LSE], .d_out = &t[D_OUT],
                        .d_q = &t[D_Q], .d_k = &t[D_K], .d_v = &t[D_V],
                        .causal = RL_CAUSAL_TOP_LEFT},
                       stream,
                       {{0}}};
  const double begin = now_us();
  if (rl_attention_forward_warm_up(context, &calls.forward) != RL_OK ||
      rl_attention_backward_warm_up(context, &calls.backward) != RL_OK)
    return fail("warm-up");
  printf("%s: warm-up %.2f s\n", bits == 32 ? "fp32" : "bf16", 1e-6 * (now_us() - begin));
  if (call(&calls, 0) != RL_OK || call(&calls, 1) != RL_OK) return fail("a call");
  synchronize(stream);
  int right = 1;
  reference();
  for (int n = 0; check && n < TENSORS; ++n) {
    if (n != OUT && n != LSE && n < D_Q) continue;
    if (download(bytes, device[n], sizeof bytes) != 0) return 0;
    double worst = 0, largest = 0;
    for (int i = 0; i < (n == LSE ? ROWS : COUNT); ++i) {
      const double error = fabs(load(bytes, i, n == LSE ? 32 : bits) - want[n][i]);
      if (!(error <= worst)) worst = error; /* also true for NaN */
      if (fabs(want[n][i]) > largest) largest = fabs(want[n][i]);
    }
    const double tolerance = (n == LSE || bits == 32 ? 1e-5 : 1.2e-2) * (largest > 1 ? largest : 1);
    printf("  %-12s error %.2g, tolerance %.2g\n", names[n], worst, tolerance);
    right &= worst <= tolerance;
  }
  /* fp32 tensors take one more launch, which splits them into planes. */
  const int planes = bits == 32;
  for (int backward = 0; backward < 2; ++backward) {
    rl_attention_run* run = &calls.prepared[backward];
    run->size = sizeof *run;
    for (int n = 0; n < TENSORS; ++n) run->data[n] = t[n].data;
    if ((backward ? rl_attention_backward_prepare(context, &calls.backward, &run->call)
                  : rl_attention_forward_prepare(context, &calls.forward, &run->call)) != RL_OK)
      return fail("a prepared call");
  }
  for (int kind = 0; kind < 4; ++kind) {
    char name[64];
    snprintf(name, sizeof name, "%s %s%s", kind & BACKWARD ? "backward" : "forward",
             bits == 32 ? "fp32" : "bf16", kind & PREPARED ? ", prepared" : "");
    right &= time_calls(&calls, name, kind, (kind & BACKWARD ? 3 : 1) + planes);
  }
  rl_attention_call_destroy(calls.prepared[0].call);
  rl_attention_call_destroy(calls.prepared[1].call);
  return right;
}

int main(int argc, char** argv) {
  const int check = argc < 2 || strcmp(argv[1], "--no-check") != 0;
  void* stream = NULL;
  if (!open_driver() || create_stream(&stream, 1, 0) != 0) {
    printf("there is no GPU to be driven on this machine\n");
    return 1;
  }
  rl_context* context = NULL;
  const rl_context_params params = {.size = sizeof params, .device = {RL_CUDA, 0},
                                    .uses_stream = 1, .stream = stream, .cache_dir = "off"};
  if (rl_context_create(&params, &context) != RL_OK) {
    fail("rl_context_create");
    return 1;
  }
  const int right = run(context, stream, 16, check) & run(context, stream, 32, check);
  rl_context_destroy(context);
  printf(right ? "all within their bars\n" : "NOT all within their bars\n");
  return right ? 0 : 1;
}
