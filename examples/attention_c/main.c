/* Causal attention and its gradients through the C interface, compared with plain loops in double:
 * exit code 0 if all values agree, 1 otherwise. */
#include <math.h>
#include <ridgeline/ridgeline.h>
#include <stdio.h>

enum { BATCH = 2, HEADS = 2, LENGTH = 33, WIDTH = 16 };
enum { ROWS = BATCH * HEADS * LENGTH, COUNT = ROWS * WIDTH };

static float q[COUNT], k[COUNT], v[COUNT], out[COUNT], lse[ROWS];
static float d_out[COUNT], d_q[COUNT], d_k[COUNT], d_v[COUNT];
static double want_out[COUNT], want_lse[ROWS], want_d_q[COUNT], want_d_k[COUNT], want_d_v[COUNT];

static double dot(const float* a, const float* b) {
  double sum = 0;
  for (int i = 0; i < WIDTH; ++i) sum += (double)a[i] * b[i];
  return sum;
}

/* Adds the contribution of one query to all expected results. */
static void reference_row(int head, int row) {
  const int base = head * LENGTH * WIDTH, at = base + row * WIDTH;
  const double scale = 1 / sqrt((double)WIDTH);
  double weight[LENGTH], d_weight[LENGTH], largest = -INFINITY, sum = 0, delta = 0;
  for (int j = 0; j <= row; ++j) {
    weight[j] = scale * dot(q + at, k + base + j * WIDTH);
    if (weight[j] > largest) largest = weight[j];
  }
  for (int j = 0; j <= row; ++j) sum += weight[j] = exp(weight[j] - largest);
  want_lse[head * LENGTH + row] = largest + log(sum);
  for (int j = 0; j <= row; ++j) {
    weight[j] /= sum;
    d_weight[j] = dot(d_out + at, v + base + j * WIDTH);
    delta += weight[j] * d_weight[j];
  }
  for (int j = 0; j <= row; ++j)
    for (int i = 0; i < WIDTH; ++i) {
      const int key = base + j * WIDTH + i;
      const double d_score = scale * weight[j] * (d_weight[j] - delta);
      want_out[at + i] += weight[j] * v[key];
      want_d_v[key] += weight[j] * d_out[at + i];
      want_d_q[at + i] += d_score * k[key];
      want_d_k[key] += d_score * q[at + i];
    }
}

static int agree(const char* name, const float* got, const double* want, int count) {
  double worst = 0;
  for (int i = 0; i < count; ++i) {
    const double error = fabs(got[i] - want[i]);
    if (!(error <= worst)) worst = error; /* also true for NaN */
  }
  printf("%-12s largest error %.2g\n", name, worst);
  return worst < 1e-5;
}

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, rl_last_error());
  return 1;
}

int main(void) {
  float* inputs[] = {q, k, v, d_out};
  for (int t = 0; t < 4; ++t)
    for (int i = 0; i < COUNT; ++i) inputs[t][i] = (float)sin(0.37 * i + 1.3 * t);
  for (int head = 0; head < BATCH * HEADS; ++head)
    for (int row = 0; row < LENGTH; ++row) reference_row(head, row);

  const int64_t shape[4] = {BATCH, HEADS, LENGTH, WIDTH};
  const rl_device cpu = {RL_CPU, 0};
  const rl_dtype fp32 = {RL_FLOAT, 32, 1};
  const rl_tensor tq = {q, cpu, 4, fp32, shape, NULL, 0}, tk = {k, cpu, 4, fp32, shape, NULL, 0},
                  tv = {v, cpu, 4, fp32, shape, NULL, 0},
                  tout = {out, cpu, 4, fp32, shape, NULL, 0},
                  tlse = {lse, cpu, 3, fp32, shape, NULL, 0},
                  td_out = {d_out, cpu, 4, fp32, shape, NULL, 0},
                  td_q = {d_q, cpu, 4, fp32, shape, NULL, 0},
                  td_k = {d_k, cpu, 4, fp32, shape, NULL, 0},
                  td_v = {d_v, cpu, 4, fp32, shape, NULL, 0};

  rl_context* context = NULL;
  if (rl_context_create(NULL, &context) != RL_OK) return fail("rl_context_create");
  const rl_attention_forward_params forward = {.size = sizeof forward,
                                               .q = &tq,
                                               .k = &tk,
                                               .v = &tv,
                                               .out = &tout,
                                               .log_sum_exp = &tlse,
                                               .causal = RL_CAUSAL_TOP_LEFT};
  if (rl_attention_forward(context, &forward) != RL_OK) return fail("rl_attention_forward");
  rl_attention_backward_params backward = {.size = sizeof backward,
                                           .q = &tq,
                                           .k = &tk,
                                           .v = &tv,
                                           .out = &tout,
                                           .log_sum_exp = &tlse,
                                           .d_out = &td_out,
                                           .d_q = &td_q,
                                           .d_k = &td_k,
                                           .d_v = &td_v,
                                           .causal = RL_CAUSAL_TOP_LEFT};
  if (rl_attention_backward(context, &backward) != RL_OK) return fail("rl_attention_backward");

  /* Results that overlap: an error is a status and a message. */
  backward.d_k = backward.d_q;
  const rl_status refused = rl_attention_backward(context, &backward);
  printf("%s: %s\n", rl_status_name(refused), rl_last_error());
  rl_context_destroy(context);

  const int right = agree("out", out, want_out, COUNT) & agree("log_sum_exp", lse, want_lse, ROWS) &
                    agree("d_q", d_q, want_d_q, COUNT) & agree("d_k", d_k, want_d_k, COUNT) &
                    agree("d_v", d_v, want_d_v, COUNT) & (refused == RL_ERROR_INVALID_ARGUMENT);
  return right ? 0 : 1;
}
