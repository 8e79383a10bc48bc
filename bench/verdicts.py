#!/usr/bin/env python3
"""Counts how often `ridgeline compare --interleave` is wrong: self-comparisons, and true slowdowns of 3 and 5 %.

    python3 bench/verdicts.py                # 100 of each: about an hour
    python3 bench/verdicts.py --tries 10     # a sample
    python3 bench/verdicts.py --tries 0 --also other/verdicts.json   # only sums up earlier runs

The slowdowns are real work: batch 34 against 33 and 21 against 20, one thread, 3 and 5 % more FLOPs and bytes. Each
comparison has the gate `slower:3%`. Every comparison is kept in DIRECTORY/verdicts.json, from where an interrupted run
resumes. Exits with 1 if one of LIMITS is violated, and prints which.
"""
import argparse
import collections
import csv
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import time

STUDY = ["attention", "--impl", "flash", "--device", "cpu", "--threads", "1", "--d-model", "64", "--seq-len", "128"]
BATCHES = {"same": (20, 20), "slower 3 %": (33, 34), "slower 5 %": (20, 21)}
GATE = "slower:3%"
PASSED, FAILED, UNDECIDED = 0, 1, 5  # exit codes of a comparison with gates

# The least and the largest share of phases with a verdict, or of comparisons with an exit code.
LIMITS = [
    ("same", "verdict", ("FASTER", "SLOWER"), 0, 0.01),
    ("same", "exit", (FAILED,), 0, 0),
    ("slower 3 %", "verdict", ("SLOWER",), 0.95, 1),
    ("slower 5 %", "verdict", ("SLOWER",), 0.98, 1),
    ("slower 5 %", "exit", (PASSED,), 0, 0),
]


def compare(program, directory, kind):
    """Runs one comparison and returns its entry of verdicts.json."""
    load, start = os.getloadavg()[0], time.monotonic()
    base, new = BATCHES[kind]
    arguments = [program, "compare", "--interleave", "--results-dir", str(directory), "--gate", GATE,
                 "--base-args", f"--batch-size {base}", "--new-args", f"--batch-size {new}", "--", *STUDY]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode not in (PASSED, FAILED, UNDECIDED):
        raise SystemExit(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
    seconds = time.monotonic() - start
    with open(directory / "compare" / "comparison.csv", newline="") as file:
        rows = [{key: row[key] for key in ("phase", "verdict")} |
                {key: float(row[key]) for key in ("base_median_ms", "speedup", "speedup_low", "speedup_high")}
                for row in csv.DictReader(file)]
    return {"kind": kind, "program": hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()[:12],
            "seconds": round(seconds, 2), "load": round(load, 2), "exit": done.returncode, "rows": rows}


def counts(entries, kind, what):
    """Returns how often each verdict of a phase, or each exit code, occurred."""
    chosen = [entry for entry in entries if entry["kind"] == kind]
    if what == "exit":
        return collections.Counter(entry["exit"] for entry in chosen)
    return collections.Counter(row["verdict"] for entry in chosen for row in entry["rows"])


def summary(entries, kind):
    chosen = [entry for entry in entries if entry["kind"] == kind]
    if not chosen:
        return f"{kind}: none"
    middle = lambda key: statistics.median(entry[key] for entry in chosen)
    verdicts = ", ".join(f"{n} {name}" for name, n in sorted(counts(entries, kind, "verdict").items()))
    exits = ", ".join(f"{code}: {n}" for code, n in sorted(counts(entries, kind, "exit").items()))
    change = 100 * (statistics.median(1 / row["speedup"] for entry in chosen for row in entry["rows"]) - 1)
    return (f"{kind}: {len(chosen)} comparisons; phases {verdicts}; exit codes {exits}; "
            f"median change {change:+.2f} %, {middle('seconds'):.1f} s each "
            f"(at most {max(entry['seconds'] for entry in chosen):.1f}), load {middle('load'):.1f} "
            f"({min(entry['load'] for entry in chosen):.1f} to {max(entry['load'] for entry in chosen):.1f})")


def broken(entries):
    """Yields a sentence for each violated limit."""
    for kind, what, wanted, least, most in LIMITS:
        seen = counts(entries, kind, what)
        share = sum(seen[value] for value in wanted) / max(1, seen.total())
        if seen and not least <= share <= most:
            yield f"{kind}: {what} {' or '.join(map(str, wanted))} in {share:.1%}, expected {least:.0%} to {most:.0%}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/ridgeline")
    parser.add_argument("--tries", type=int, default=100, help="comparisons of each kind, those kept included")
    parser.add_argument("--directory", type=pathlib.Path, default="results/verdicts")
    parser.add_argument("--also", type=pathlib.Path, nargs="*", default=[], help="files of other runs to add up")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    kept = options.directory / "verdicts.json"
    entries = json.loads(kept.read_text()) if kept.exists() else []
    other = [entry for path in options.also for entry in json.loads(path.read_text())]
    for i in range(options.tries):
        for kind in BATCHES:  # alternating, so that all kinds are measured in the same hours
            if sum(entry["kind"] == kind for entry in entries) > i:
                continue
            entries.append(compare(options.program, options.directory, kind))
            partial = kept.with_suffix(".partial")
            partial.write_text(json.dumps(entries, indent=0))
            partial.replace(kept)
            print(summary(entries + other, kind), flush=True)
    for kind in BATCHES:
        print(summary(entries + other, kind))
    print(f"{len({entry['program'] for entry in entries + other})} build(s) of the program")
    problems = list(broken(entries + other))
    for problem in problems:
        print(f"BROKEN: {problem}")
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
