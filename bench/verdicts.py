#!/usr/bin/env python3
"""How often `ridgeline compare --interleave` is wrong: self-comparisons, and a true slowdown of 5 %.

    python3 bench/verdicts.py                         # 200 self-comparisons, 100 slowdowns, about an hour
    python3 bench/verdicts.py --same 20 --slower 10   # a sample

The slowdown is real work: batch 21 against batch 20, one thread. First the noise floor is measured and
stored, as a user would do. Ends with 1 if more than 2 % of self-comparisons are called FASTER or SLOWER,
or fewer than 95 % of slowdowns are called SLOWER with a failing gate.
"""
import argparse
import collections
import csv
import os
import subprocess
import tempfile

STUDY = ["attention", "--impl", "flash", "--threads", "1", "--d-model", "64", "--seq-len", "128"]


def run(arguments, expected=(0,)):
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode not in expected:
        raise SystemExit(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
    return done.returncode


def verdicts(program, results, base_args, new_args):
    """Verdicts of the timed phases, and the exit code of a gate at 3 %."""
    code = run([program, "compare", "--interleave", "--results-dir", results, "--gate", "slower:3%",
                "--base-args", base_args, "--new-args", new_args, "--", *STUDY], expected=(0, 1))
    with open(os.path.join(results, "compare", "comparison.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    # Phases of a millisecond or more are what is promised.
    return [row["verdict"] for row in rows if float(row["base_median_ms"]) >= 1], code


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/ridgeline")
    parser.add_argument("--same", type=int, default=200, help="self-comparisons")
    parser.add_argument("--slower", type=int, default=100, help="comparisons with 5 %% more work")
    parser.add_argument("--no-noise", action="store_true", help="leave the noise floor at what is assumed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as results:
        if not options.no_noise:
            run([options.program, "noise", "--results-dir", results, "--", *STUDY, "--batch-size", "20"])
        same, slower, gates = collections.Counter(), collections.Counter(), 0
        for i in range(max(options.same, options.slower)):
            if i < options.same:
                same.update(verdicts(options.program, results, "--batch-size 20", "--batch-size 20")[0])
            if i < options.slower:
                called, code = verdicts(options.program, results, "--batch-size 20", "--batch-size 21")
                slower.update(called)
                gates += code == 1
            print(f"{i + 1}: same {dict(same)}, slower {dict(slower)}, gates failed {gates}", flush=True)
    wrong = (same["FASTER"] + same["SLOWER"]) / max(1, sum(same.values()))
    found = slower["SLOWER"] / max(1, sum(slower.values()))
    print(f"{options.same} self-comparisons, {sum(same.values())} verdicts: {100 * wrong:.1f} % FASTER or SLOWER")
    print(f"{options.slower} slowdowns of 5 %, {sum(slower.values())} verdicts: {100 * found:.1f} % SLOWER, "
          f"the gate failed in {gates}")
    missed = options.slower and (found < 0.95 or gates < 0.95 * options.slower)
    raise SystemExit(1 if wrong > 0.02 or missed else 0)


if __name__ == "__main__":
    main()
