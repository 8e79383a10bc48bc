#!/usr/bin/env python3
"""Compares training steps that communicate during backward with those that communicate afterwards, alternating.

    bench/ddp_overlap.py                                  # 4 ranks of 3 threads: a host with 16 processors
    bench/ddp_overlap.py --ranks 2 --threads 3 --backend gloo

Each round runs `ridgeline ddp` once for each strategy, in an order that rotates from round to round. A ratio above 1
means that the strategy is faster than naive. FASTER and SLOWER need at least five rounds that all agree, which happens
by chance once in 32; anything else is UNCLEAR. Where ranks x (threads + 1) exceeds the host's processors, results say
nothing about overlap.
"""
import argparse
import csv
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

BINARY = pathlib.Path(__file__).resolve().parent.parent / "build/release/ridgeline"
STRATEGIES = ["naive", "overlapped", "bucketed"]
# 21 million parameters: 84 MB of gradients, with about as much computation per byte as in a larger model.
MODEL = ["--d-model", "512", "--d-ff", "2048", "--layers", "4", "--heads", "8", "--vocabulary", "4000", "--context-length", "64",
         "--batch-size", "1"]
FEWEST_ROUNDS = 5


def step(strategy, options, folder):
    """Runs a fresh process and returns its row of ddp.csv."""
    folder = tempfile.mkdtemp(dir=folder)
    table = pathlib.Path(folder) / "row.csv"
    words = [options.binary, "ddp", *MODEL, "--strategy", strategy, "--bucket-mb", str(options.bucket_mb), "--ranks",
             str(options.ranks), "--threads", str(options.threads), "--backend", options.backend, "--impl", options.mode,
             "--num-warmup", "2", "--num-iterations", str(options.steps), "--no-verify", "--results-dir", folder, "--output", table]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    with open(table, newline="") as lines:
        return next(csv.DictReader(lines))


def verdict(ratios):
    if len(ratios) >= FEWEST_ROUNDS and min(ratios) > 1:
        return "FASTER"
    if len(ratios) >= FEWEST_ROUNDS and max(ratios) < 1:
        return "SLOWER"
    return "UNCLEAR"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--threads", type=int, default=3, help="of each rank")
    parser.add_argument("--backend", default="threads")
    parser.add_argument("--mode", default="compiled")
    parser.add_argument("--bucket-mb", type=int, default=10)
    parser.add_argument("--steps", type=int, default=6, help="samples of each run")
    parser.add_argument("--seconds", type=float, default=36, help="no round begins that would end later")
    options = parser.parse_args()
    processors = len(os.sched_getaffinity(0))
    needed = options.ranks * (options.threads + 1)
    print(f"{options.ranks} ranks of {options.threads} threads and one that communicates by {options.backend}, "
          f"on {processors} processors")
    if needed > processors:
        print(f"{needed} threads share {processors} processors: what is hidden costs the time of others")
    rows = {strategy: [] for strategy in STRATEGIES}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        step("naive", options, folder)  # compiles kernels
        rounds = 0
        longest = 0.0
        while rounds == 0 or time.monotonic() - began + longest < options.seconds:
            round_began = time.monotonic()
            turn = rounds % len(STRATEGIES)
            for strategy in STRATEGIES[turn:] + STRATEGIES[:turn]:
                rows[strategy].append(step(strategy, options, folder))
            rounds += 1
            longest = max(longest, time.monotonic() - round_began)
    times = {strategy: [float(row["step_ms"]) for row in all_rows] for strategy, all_rows in rows.items()}
    for strategy in STRATEGIES:
        spent, exposed = (statistics.median(float(row[key]) for row in rows[strategy])
                          for key in ("communication_ms", "exposed_ms"))
        line = (f"{strategy:10} {statistics.median(times[strategy]):8.2f} ms a step, {spent:7.2f} ms in collectives, "
                f"{exposed:7.2f} ms exposed")
        if strategy != "naive":
            ratios = [naive / own for naive, own in zip(times["naive"], times[strategy])]
            line += (f"; against naive {statistics.median(ratios):.3f}x ({min(ratios):.3f} to {max(ratios):.3f} in {rounds} rounds): "
                     f"{verdict(ratios)}")
        print(line)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
