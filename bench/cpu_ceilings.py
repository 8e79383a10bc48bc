"""Compares the measured ceilings of this CPU with independent tools: PyTorch's sgemm (MKL) and copies in plain C.

  python bench/cpu_ceilings.py                     three rounds, alternating; about two minutes
  python bench/cpu_ceilings.py --rounds 1

Needs PyTorch, a C compiler and a built ./lab. Each figure is the fastest sample of all rounds, because other work on
the machine can only lower a ceiling. Exit code 1 if ours is more than 5 % below an independent figure.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import torch

BINARY = pathlib.Path(__file__).resolve().parent.parent / "build/release/ridgeline"
LIMIT_PERCENT = 5
SIZES = [1024, 2048]
# Arrays as large as ridgeline's, half for each thread; the better of plain stores and memcpy counts.
STREAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static double *from, *to; static long count; static int threads, by_memcpy;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
static void* part(void* which) {
  long i = (long)which, begin = count * i / threads, end = count * (i + 1) / threads;
  if (by_memcpy) memcpy(to + begin, from + begin, (end - begin) * sizeof *to);
  else for (long at = begin; at < end; ++at) { to[at] = from[at]; __asm__ volatile("" ::: ); }
  return 0;
}
static double once(void) {
  pthread_t ids[64]; double begin = now();
  for (long i = 1; i < threads; ++i) pthread_create(&ids[i], 0, part, (void*)i);
  part(0);
  for (long i = 1; i < threads; ++i) pthread_join(ids[i], 0);
  return now() - begin;
}
int main(int argc, char** argv) {
  count = atol(argv[1]) / sizeof *to; threads = atoi(argv[2]);
  from = aligned_alloc(4096, count * sizeof *to); to = aligned_alloc(4096, count * sizeof *to);
  for (long i = 0; i < count; ++i) from[i] = i, to[i] = 0;
  double best = 1e9;
  for (by_memcpy = 0; by_memcpy < 2; ++by_memcpy)
    for (int i = 0; i < 8; ++i) { double t = once(); if (t < best) best = t; }
  printf("%.6g\n", 2.0 * count * sizeof *to / best);
}
"""


def fastest(work, seconds=1.5):
    """Returns the seconds of the fastest call."""
    work()
    start, best = time.perf_counter(), float("inf")
    while time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def torch_sgemm():
    rates = []
    for size in SIZES:
        a, b, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
        rates.append(2 * size**3 / fastest(lambda: torch.matmul(a, b, out=out)))
    return max(rates)


def torch_copy(array_bytes):
    a = torch.randn(array_bytes // 4)
    b = torch.zeros_like(a)
    return 2 * array_bytes / fastest(lambda: b.copy_(a))


def c_copy(program, array_bytes, threads):
    return float(subprocess.run([program, str(array_bytes), str(threads)], check=True, capture_output=True,
                                text=True).stdout)


def our_ceilings(args, folder):
    subprocess.run([args.ridgeline, "roofline", "--device", "cpu", "--threads", str(args.threads), "--dtype", "fp32",
                    "--results-dir", folder], check=True, stdout=subprocess.DEVNULL)
    lines = (pathlib.Path(folder) / "roofline/roofline.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["status"] == "ok"]


def best_of(records, names, rate):
    return max(record["metrics"]["probe"][rate] for record in records
               if record["implementation"] in names and rate in record["metrics"].get("probe", {}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ridgeline", type=pathlib.Path, default=BINARY)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    best = {}

    def keep(name, rate):
        best[name] = max(best.get(name, 0), rate)

    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder) / "stream.c", str(pathlib.Path(folder) / "stream")
        source.write_text(STREAM)
        subprocess.run(["cc", "-O3", "-march=native", str(source), "-o", program, "-lpthread"], check=True)
        for number in range(args.rounds):
            records = our_ceilings(args, f"{folder}/{number}")
            array_bytes = max(record["workload"]["buffer_bytes"] for record in records
                              if record["workload"].get("level") == "memory" and "copy" in record["implementation"])
            keep("our sgemm", best_of(records, {"library", "simd"}, "flops_per_s"))
            keep("our FMA loop", best_of(records, {"fma"}, "flops_per_s"))
            keep("our copy", best_of(records, {"copy", "copy-streaming", "copy-memcpy"}, "bytes_per_s"))
            keep("torch sgemm", torch_sgemm())
            keep("torch copy", torch_copy(array_bytes))
            keep("C copy", c_copy(program, array_bytes, args.threads))

    print(f"torch {torch.__version__}, {args.threads} threads, best of {args.rounds} rounds; G per second")
    for name, rate in best.items():
        print(f"  {name:<14} {rate / 1e9:9.2f}")
    missed = False
    for name, others in (("sgemm", ["torch sgemm"]), ("copy", ["torch copy", "C copy"])):
        other = max(best[each] for each in others)
        below = 100 * (1 - best[f"our {name}"] / other)
        missed |= below > LIMIT_PERCENT
        print(f"{name}: ours is {below:+.1f} % below the best independent figure (at most {LIMIT_PERCENT})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
