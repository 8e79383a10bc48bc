"""Counts how often verdicts on recorded runs are wrong, and how often they find a real difference.

  python3 bench/recorded_verdicts.py record runs/ --runs 100               fresh runs, one file each, on a quiet machine
  python3 bench/recorded_verdicts.py record runs-busy/ --runs 100 --busy 4  next to four busy processes
  python3 bench/recorded_verdicts.py judge runs/ [runs-later/ ...]          500 pairs, as single runs and as --runs 5

On a quiet machine of two cores `record runs/ --runs 60 --batch 4` takes about four minutes, `judge runs/ --pairs 200` as
long again.

One run in seven has a quarter more work (a batch of 10 instead of 8), another one twice the work. `judge` runs
`ridgeline compare` on pairs of runs of the same work, half of them neighbours, half from different folders if there are
several (recorded an hour apart, say): FASTER and SLOWER are wrong there. For more work SLOWER is right.
Each pair is judged again with a noise floor stored for another row, which must change nothing.
"""
import argparse
import collections
import csv
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
STUDY = ["attention", "--impl", "naive,flash", "--d-model", "32,64", "--seq-len", "96,192,384", "--num-warmup", "3",
         "--num-iterations", "20"]
WORK = [1, 1, 1.25, 1, 1, 2, 1]  # of successive runs
RUNS_A_SIDE = 5
LONG_MS = 0.5  # longer samples show a quarter more work despite the start of threads
MORE_WORK = {1.25: "a quarter more work", 2: "twice the work"}


class Found(NamedTuple):
    verdict: str
    speedup: float
    base_ms: float
    doubt: str  # the machine's possible influence on the difference, without figures; empty: none


def record(binary, folder, runs, busy, batch):
    folder.mkdir(parents=True, exist_ok=True)
    others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(busy)]
    try:
        same = number = 0
        while same < runs:
            work = WORK[number % len(WORK)]
            number += 1
            with tempfile.TemporaryDirectory() as results:
                subprocess.run([binary, *STUDY, "--batch-size", str(round(work * batch)), "--results-dir", results], check=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                text = pathlib.Path(results, "attention/attention.jsonl").read_text()
            (folder / f"{number:04d}-x{work:g}.jsonl").write_text(text)
            same += work == 1
    finally:
        for other in others:
            other.kill()


def side(files, path):
    """Writes `files` as one file of a --runs; workloads are renamed so that rows are paired."""
    lines = []
    for number, file in enumerate(files, 1):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            row["workload"]["batch_size"] = 0
            row["run"] = number if len(files) > 1 else 0
            lines.append(json.dumps(row))
    path.write_text("\n".join(lines) + "\n")


def verdicts(binary, base, new, work, results=None):
    side(base, work / "base.jsonl")
    side(new, work / "new.jsonl")
    subprocess.run([binary, "compare", work / "base.jsonl", work / "new.jsonl", "--results-dir", results or work],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open((results or work) / "compare/comparison.csv", newline="") as file:
        return [Found(row["verdict"], float(row["speedup"] or "nan"), float(row["base_median_ms"] or "nan"),
                      doubt_of(row["note"])) for row in csv.DictReader(file)]


def doubt_of(note):
    kinds = ("processors beside", "slower beside", "slower before", "slower after", "does not say", "clock was")
    return re.sub(r"[\d.]+", "#", note) if any(kind in note for kind in kinds) else ""


def draw(groups, count, size):
    """Yields pairs of sides of `size` runs: half neighbours of one folder, half from two folders if there are two."""
    groups = [group for group in groups if len(group) >= 2 * size]
    for i in range(count):
        apart = i % 2 == 1 and len(groups) > 1
        first = random.choice(groups)
        second = random.choice([group for group in groups if group is not first]) if apart else first
        begin = random.randrange(len(first) - (1 if apart else 2) * size + 1)
        other = random.randrange(len(second) - size + 1) if apart else begin + size
        yield first[begin:begin + size], second[other:other + size]


def windows(groups, count, size):
    """Yields `size` neighbouring runs of one folder; nothing if no folder has as many."""
    groups = [group for group in groups if len(group) >= size]
    for _ in range(count if groups else 0):
        group = random.choice(groups)
        begin = random.randrange(len(group) - size + 1)
        yield group[begin:begin + size]


def judge(binary, folders, pairs):
    by_work = {work: [sorted(folder.glob(f"*-x{work:g}.jsonl")) for folder in folders] for work in set(WORK)}
    bad = False
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        floors = work / "floors"  # of a row that is not judged
        subprocess.run([binary, "noise", "--runs", "11", "--results-dir", floors, "--", "attention", "--impl", "flash",
                        "--seq-len", "32", "--d-model", "16", "--num-iterations", "6"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for size in (1, RUNS_A_SIDE):
            how = "single runs" if size == 1 else f"--runs {size}"
            seen, doubts, changed = collections.Counter(), collections.Counter(), 0
            for base, new in draw(by_work[1], pairs, size):
                found = verdicts(binary, base, new, work)
                seen.update(each.verdict for each in found)
                doubts.update(each.doubt for each in found if each.doubt)
                changed += found != verdicts(binary, base, new, work, floors)
            wrong = seen["FASTER"] + seen["SLOWER"]
            share = 100 * wrong / sum(seen.values())
            bad |= share > 1 or changed > 0
            print(f"same work, {how}: {pairs} pairs, {wrong} of {sum(seen.values())} rows and phases wrong "
                  f"({share:.2f} %); {dict(seen)}; {changed} pairs changed by a floor of another row; "
                  f"in doubt because of the machine: {dict(doubts)}", flush=True)
            for more, words in MORE_WORK.items():
                found = []
                for base, new in zip(windows(by_work[1], 100, size), windows(by_work[more], 100, size)):
                    found += verdicts(binary, base, new, work)
                if not found:
                    print(f"{words}, {how}: too few runs were recorded")
                for kind, rows in (("rows and phases", found),
                                   (f"of those from {LONG_MS} ms on", [each for each in found if each.base_ms >= LONG_MS]),
                                   ("of those as much apart, without a doubt because of the machine",
                                    [each for each in found if not each.doubt and each.speedup <= 1 / more])):
                    slower = sum(each.verdict == "SLOWER" for each in rows)
                    if rows:
                        print(f"{words}, {how}: {slower} of {len(rows)} {kind} SLOWER "
                              f"({100 * slower / len(rows):.1f} %)", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/release/ridgeline")
    parser.add_argument("--seed", type=int, default=1)
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record")
    recording.add_argument("folder", type=pathlib.Path)
    recording.add_argument("--runs", type=int, default=100)
    recording.add_argument("--busy", type=int, default=0)
    recording.add_argument("--batch", type=int, default=8)
    judging = actions.add_parser("judge")
    judging.add_argument("folders", type=pathlib.Path, nargs="+")
    judging.add_argument("--pairs", type=int, default=500)
    options = parser.parse_args()
    random.seed(options.seed)
    if options.action == "record":
        record(options.binary, options.folder, options.runs, options.busy, options.batch)
        return 0
    return int(judge(options.binary, options.folders, options.pairs))


if __name__ == "__main__":
    sys.exit(main())
