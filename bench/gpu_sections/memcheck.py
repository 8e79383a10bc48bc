"""Small runs under NVIDIA's memory checker: every access of every kernel is looked at."""
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import tempfile

from .bars import Bar, Section, not_run

PLACES = ["/usr/local/cuda*/bin/compute-sanitizer", "/usr/local/cuda*/compute-sanitizer/compute-sanitizer"]
FLASH = {"impl": "flash", "shape": [(1, 2, 200, 64), (2, 3, 130, 72)], "mode": "hot", "backward": True,
         "calls_per_sample": 1}
# No length is a multiple of a tile, one width is padded; both backward algorithms, both element sizes.
RUNS = [
    ("kernel", dict(FLASH, dtype="bf16", backward_algorithm="single-pass")),
    ("kernel", dict(FLASH, dtype="bf16", backward_algorithm="two-pass", causal=True)),
    ("kernel", dict(FLASH, dtype="fp32", backward_algorithm="single-pass", causal=True)),
    ("kernel", dict(FLASH, dtype="fp32", backward_algorithm="two-pass")),
    ("attention", {"impl": "naive", "dtype": ["fp32", "bf16"], "batch_size": 2, "seq_len": [77, 200], "d_model": 24}),
]
TIMEOUT_S = 120


def find_checker():
    found = shutil.which("compute-sanitizer")
    places = sorted((path for place in PLACES for path in glob.glob(place)), reverse=True)
    return found or next((path for path in places if os.access(path, os.X_OK)), None)


def check(checker, ridgeline, study, options):
    """Errors found, or None and why there is no answer."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-results-") as results:
        # Results of API calls are the program's own to check; libraries probe with calls that fail.
        command = [checker, "--tool", "memcheck", "--report-api-errors", "no",
                   *ridgeline.command(study, results, num_warmup=0, num_iterations=1, **options)]
        try:
            done = subprocess.run(command, env=ridgeline.environment(), timeout=TIMEOUT_S, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            return None, f"not done after {TIMEOUT_S} s"
    summary = re.search(r"ERROR SUMMARY: (\d+) error", done.stdout)
    if summary is None or (done.returncode != 0 and summary[1] == "0"):
        return None, f"ended with {done.returncode}: {done.stdout.strip()[-1500:]}"
    errors = int(summary[1])
    return errors, "" if errors == 0 else done.stdout[:3000]


def run(bench):
    checker = find_checker()
    if checker is None:
        return Section([not_run("memory checker", "no compute-sanitizer on PATH or in /usr/local/cuda*")])
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(RUNS)) as pool:
        answers = list(pool.map(lambda each: check(checker, bench.ridgeline, *each), RUNS))
    for (study, options), (errors, said) in zip(RUNS, answers):
        what = " ".join(f"{name}={value}" for name, value in options.items())
        print(f"   {study} {what}: {'no answer' if errors is None else f'{errors} errors'} {said}", flush=True)
    counts = [errors for errors, _ in answers]
    unanswered = counts.count(None)
    figure = f"{sum(filter(None, counts))} errors in {len(counts) - unanswered} runs"
    if unanswered:
        figure += f", {unanswered} without an answer"
    data = [{"study": study, "options": options, "errors": errors, "said": said}
            for (study, options), (errors, said) in zip(RUNS, answers)]
    return Section([Bar("memory checker", figure, "0 errors", counts == [0] * len(RUNS))], data)
