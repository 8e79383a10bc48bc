/* Attention and its gradients on a CUDA stream, compared with the CPU's: exit code 0 if all values
 * agree or there is no GPU, 1 otherwise. Memory and the stream come from NVIDIA's driver, which is
 * opened at run time; a program with a toolkit or PyTorch passes its own pointers and streams. */
#include <dlfcn.h>
#include <math.h>
#include <ridgeline/ridgeline.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 2, HEADS = 4, LENGTH = 300, WIDTH = 64 };
enum { ROWS = BATCH * HEADS * LENGTH, COUNT = ROWS * WIDTH };
enum { Q, K, V, OUT, LSE, D_OUT, D_Q, D_K, D_V, TENSORS };
static const char* const names[] = {"q",     "k",   "v",   "out", "log_sum_exp",
                                    "d_out", "d_q", "d_k", "d_v"};

/* The functions of the driver that this program calls. */
static int (*init)(unsigned), (*get)(int*, int), (*retain)(void**, int), (*set_current)(void*);
static int (*create_stream)(void**, unsigned), (*synchronize)(void*);
static int (*allocate)(unsigned long long*, size_t);
static int (*upload)(unsigned long long, const void*, size_t, void*);
static int (*download)(void*, unsigned long long, size_t, void*);

static int open_driver(void) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) return 0;
  *(void**)&init = dlsym(library, "cuInit");
  *(void**)&get = dlsym(library, "cuDeviceGet");
  *(void**)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
  *(void**)&set_current = dlsym(library, "cuCtxSetCurrent");
  *(void**)&create_stream = dlsym(library, "cuStreamCreate");
  *(void**)&synchronize = dlsym(library, "cuStreamSynchronize");
  *(void**)&allocate = dlsym(library, "cuMemAlloc_v2");
  *(void**)&upload = dlsym(library, "cuMemcpyHtoDAsync_v2");
  *(void**)&download = dlsym(library, "cuMemcpyDtoHAsync_v2");
  int device = 0;
  void* context = NULL;
  return init != NULL && get != NULL && retain != NULL && set_current != NULL &&
         create_stream != NULL && synchronize != NULL && allocate != NULL && upload != NULL &&
         download != NULL && init(0) == 0 && get(&device, 0) == 0 &&
         retain(&context, device) == 0 && set_current(context) == 0;
}

static size_t bytes_of(int tensor) { return (tensor == LSE ? ROWS : COUNT) * sizeof(float); }

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, rl_last_error());
  return 1;
}

/* Runs forward and backward on the context's device, on the stream if it is not NULL. */
static int run(rl_context* context, const rl_tensor* t, void* stream) {
  rl_attention_forward_params forward = {.size = sizeof forward, .q = &t[Q], .k = &t[K],
                                         .v = &t[V], .out = &t[OUT], .log_sum_exp = &t[LSE],
                                         .causal = RL_CAUSAL_TOP_LEFT,
                                         .stream = stream, .uses_stream = stream != NULL};
  rl_attention_backward_params backward = {.size = sizeof backward, .q = &t[Q], .k = &t[K],
                                           .v = &t[V], .out = &t[OUT], .log_sum_exp = &t[LSE],
                                           .d_out = &t[D_OUT], .d_q = &t[D_Q], .d_k = &t[D_K],
                                           .d_v = &t[D_V], .causal = RL_CAUSAL_TOP_LEFT,
                                           .stream = stream, .uses_stream = stream != NULL};
  /* Compiles missing kernels, so that the calls below only queue work, and may be captured. */
  if (rl_attention_forward_warm_up(context, &forward) != RL_OK) return fail("warm-up");
  if (rl_attention_backward_warm_up(context, &backward) != RL_OK) return fail("warm-up");
  if (rl_attention_forward(context, &forward) != RL_OK) return fail("rl_attention_forward");
  if (rl_attention_backward(context, &backward) != RL_OK) return fail("rl_attention_backward");
  return 0;
}

int main(void) {
  const int64_t shape[4] = {BATCH, HEADS, LENGTH, WIDTH};
  rl_tensor on_cpu[TENSORS], on_gpu[TENSORS];
  float* host[TENSORS];
  for (int t = 0; t < TENSORS; ++t) {
    host[t] = malloc(bytes_of(t));
    if (host[t] == NULL) return 1;
    for (size_t i = 0; i < bytes_of(t) / sizeof(float); ++i)
      host[t][i] = (float)sin(0.37 * (double)i + 1.3 * t);
    const rl_tensor tensor = {host[t], {RL_CPU, 0}, t == LSE ? 3 : 4, {RL_FLOAT, 32, 1}, shape,
                              NULL, 0};
    on_cpu[t] = on_gpu[t] = tensor;
  }
  rl_context* context = NULL;
  const rl_context_params params = {.size = sizeof params, .device = {RL_CUDA, 0}};
  if (!open_driver()) {
    printf("there is no GPU on this machine: no NVIDIA driver that starts\n");
    return 0;
  }
  if (rl_context_create(&params, &context) != RL_OK) {
    printf("there is no GPU that Ridgeline can use: %s\n", rl_last_error());
    return 0;
  }

  void* stream = NULL;
  if (create_stream(&stream, 1) != 0) return 1; /* 1: does not wait for the default stream */
  unsigned long long device[TENSORS];
  for (int t = 0; t < TENSORS; ++t) {
    if (allocate(&device[t], bytes_of(t)) != 0) return 1;
    if (upload(device[t], host[t], bytes_of(t), stream) != 0) return 1;
    on_gpu[t].data = (void*)(uintptr_t)device[t];
    on_gpu[t].device.type = RL_CUDA;
  }
  if (run(context, on_gpu, stream) != 0) return 1;

  rl_context* cpu = NULL;
  if (rl_context_create(NULL, &cpu) != RL_OK || run(cpu, on_cpu, NULL) != 0) return fail("the CPU");
  float* got = malloc(COUNT * sizeof(float));
  int right = got != NULL;
  for (int t = 0; right && t < TENSORS; ++t) {
    if (t != OUT && t != LSE && t < D_Q) continue;
    if (download(got, device[t], bytes_of(t), stream) != 0 || synchronize(stream) != 0) return 1;
    double worst = 0;
    for (size_t i = 0; i < bytes_of(t) / sizeof(float); ++i) {
      const double error = fabs((double)got[i] - host[t][i]);
      if (!(error <= worst)) worst = error; /* also true for NaN */
    }
    printf("%-12s largest difference between GPU and CPU %.2g\n", names[t], worst);
    right = worst < 1e-4;
  }
  rl_context_destroy(cpu);
  rl_context_destroy(context);
  return right ? 0 : 1;
}
