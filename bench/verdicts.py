#!/usr/bin/env python3
"""How often `ridgeline compare --interleave` is wrong: self-comparisons, and a true slowdown of 5 %.

    python3 bench/verdicts.py                         # 200 self-comparisons, 100 slowdowns: about 40 minutes
    python3 bench/verdicts.py --same 20 --slower 10   # a sample
    python3 bench/verdicts.py --same 0 --slower 0 --also other/verdicts.json   # adds up, measures nothing

The slowdown is real work: batch 21 against batch 20, one thread, exactly 5 % more FLOPs and bytes. First the
noise floor is measured and stored, as a user would do. Every comparison is kept in DIRECTORY/verdicts.json:
a run that was ended goes on from there. Ends with 1 if more than 2 % of self-comparisons are called FASTER or
SLOWER, or fewer than 95 % of slowdowns are called SLOWER with a failing gate.
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

STUDY = ["attention", "--impl", "flash", "--threads", "1", "--d-model", "64", "--seq-len", "128"]
BASE, NEW = "--batch-size 20", {"same": "--batch-size 20", "slower": "--batch-size 21"}


def run(arguments, expected=(0,)):
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode not in expected:
        raise SystemExit(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
    return done.returncode


def compare(program, directory, kind):
    """One comparison, with a gate at 3 %: what is kept of it."""
    load, start = os.getloadavg()[0], time.monotonic()
    code = run([program, "compare", "--interleave", "--results-dir", str(directory), "--gate", "slower:3%",
                "--base-args", BASE, "--new-args", NEW[kind], "--", *STUDY], expected=(0, 1))
    seconds = time.monotonic() - start
    with open(directory / "compare" / "comparison.csv", newline="") as file:
        rows = [{key: row[key] for key in ("phase", "verdict")} |
                {key: float(row[key]) for key in ("base_median_ms", "speedup", "speedup_low", "speedup_high")}
                for row in csv.DictReader(file)]
    return {"kind": kind, "program": hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()[:12],
            "seconds": round(seconds, 2), "load": round(load, 2), "gate_failed": code == 1, "rows": rows}


def summary(entries, kind):
    """Verdicts of phases of a millisecond or more, which is what is promised; and a sentence on them."""
    chosen = [entry for entry in entries if entry["kind"] == kind]
    rows = [row for entry in chosen for row in entry["rows"] if row["base_median_ms"] >= 1]
    counts = collections.Counter(row["verdict"] for row in rows)
    gates = sum(entry["gate_failed"] for entry in chosen)
    if not rows:
        return counts, gates, 0, f"{kind}: none"
    middle = lambda key: statistics.median(entry[key] for entry in chosen)
    change = 100 * (statistics.median(1 / row["speedup"] for row in rows) - 1)
    return counts, gates, len(chosen), (
        f"{kind}: {len(chosen)} comparisons, {', '.join(f'{n} {verdict}' for verdict, n in sorted(counts.items()))}, "
        f"gate failed in {gates}; median change {change:+.2f} %, {middle('seconds'):.1f} s each "
        f"(at most {max(entry['seconds'] for entry in chosen):.1f}), load {middle('load'):.1f} "
        f"({min(entry['load'] for entry in chosen):.1f} to {max(entry['load'] for entry in chosen):.1f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/ridgeline")
    parser.add_argument("--same", type=int, default=200, help="self-comparisons, those kept included")
    parser.add_argument("--slower", type=int, default=100, help="comparisons with 5 %% more work, likewise")
    parser.add_argument("--no-noise", action="store_true", help="leave the noise floor at what is assumed")
    parser.add_argument("--directory", type=pathlib.Path, default="results/verdicts")
    parser.add_argument("--also", type=pathlib.Path, nargs="*", default=[], help="files of other runs to add up")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    kept = options.directory / "verdicts.json"
    entries = json.loads(kept.read_text()) if kept.exists() else []
    other = [entry for path in options.also for entry in json.loads(path.read_text())]
    missing = {kind: wanted - sum(entry["kind"] == kind for entry in entries)
               for kind, wanted in (("same", options.same), ("slower", options.slower))}
    most = max(*missing.values(), 0)
    if most and not options.no_noise and not (options.directory / "history.sqlite").exists():
        run([options.program, "noise", "--results-dir", str(options.directory), "--", *STUDY, *BASE.split()])
    for i in range(most):
        for kind in NEW:
            # Spread evenly, so that both kinds see the same hours.
            if (i + 1) * missing[kind] // most > i * missing[kind] // most:
                entries.append(compare(options.program, options.directory, kind))
                partial = kept.with_suffix(".partial")
                partial.write_text(json.dumps(entries, indent=0))
                partial.replace(kept)
                print(summary(entries + other, kind)[3], flush=True)
    same, _, _, text = summary(entries + other, "same")
    print(text)
    slower, gates, tries, text = summary(entries + other, "slower")
    print(text)
    print(f"{len({entry['program'] for entry in entries + other})} build(s) of the program")
    wrong = (same["FASTER"] + same["SLOWER"]) / max(1, same.total())
    found = slower["SLOWER"] / max(1, slower.total())
    raise SystemExit(1 if wrong > 0.02 or (tries and (found < 0.95 or gates < 0.95 * tries)) else 0)


if __name__ == "__main__":
    main()
