/* The harness for callers from C: warm-ups, samples, a confidence interval of the median,
 * interleaved callables and records on disk, as in <ridgeline/harness.h> for C++.
 *
 *   #include <ridgeline/measure.h>
 *
 *   double time_saxpy(void* user);  // runs it once, returns milliseconds
 *
 *   rl_callable saxpy = {.name = "saxpy", .time_ms = time_saxpy, .user = &problem,
 *                        .flops = 2.0 * n, .bytes = 12.0 * n};
 *   rl_measure_params params = {.size = sizeof params, .callables = &saxpy, .callable_count = 1,
 *                               .warmups = 10, .iterations = 100};
 *   rl_timing timing = {.size = sizeof timing};
 *   if (rl_measure(&params, &timing) != RL_OK) return fail(rl_last_error());
 *   printf("%g ms\n", timing.median_ms);
 *
 * In the shared library; a program that links the static one links ridgeline::harness for C++.
 */
#ifndef RIDGELINE_MEASURE_H
#define RIDGELINE_MEASURE_H

#include <ridgeline/ridgeline.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rl_callable {
  const char* name;           /* of the workload */
  const char* implementation; /* of the workload; NULL: "default" */
  const char* device;         /* NULL: "cpu" */
  const char* convention;     /* of FLOPs and bytes, for readers; NULL: the author's */
  double flops;               /* of one call; 0: unknown */
  double bytes;
  const char* const* size_names; /* of the sizes that identify the workload */
  const int64_t* sizes;
  size_t size_count;
  /* Runs the work once and returns its time in milliseconds, by any clock. An invalid time
   * (negative, NaN, infinite) ends the measurement with an error. */
  double (*time_ms)(void* user);
  void* user; /* passed to time_ms */
} rl_callable;

typedef struct rl_measure_params {
  size_t size;
  const rl_callable* callables; /* several are interleaved, A B B A */
  size_t callable_count;
  const char* study;    /* of the records; NULL: "own" */
  const char* results;  /* a file to which one record per callable is appended; NULL: none */
  int32_t warmups;      /* 0: none */
  int32_t iterations;   /* samples of each, without a time budget */
  double time_budget_s; /* seconds for all callables, instead of a number of samples; ends early
                           when every median is known to 1 %. 0: none */
  int32_t run;          /* which of several runs of the program this is, from 1; 0: the only one */
  int32_t reserved;     /* 0 */
} rl_measure_params;

/* NaN: unknown. */
typedef struct rl_timing {
  size_t size;
  int64_t count;                                   /* of samples */
  double median_ms, median_low_ms, median_high_ms; /* with its 95 % confidence interval */
  double mean_ms, std_ms, min_ms, max_ms, p95_ms, p99_ms;
  double flops_per_s, bytes_per_s;     /* from the median; 0: unknown */
  double ratio, ratio_low, ratio_high; /* time over that of the first callable, round by round */
  double* samples_ms;     /* set by the caller: where samples are written; NULL: nowhere */
  size_t sample_capacity; /* set by the caller; the first samples that fit are written */
} rl_timing;

/* `timings` has one element per callable. */
RL_API rl_status rl_measure(const rl_measure_params* params, rl_timing* timings);

#ifdef __cplusplus
}
#endif

#endif
