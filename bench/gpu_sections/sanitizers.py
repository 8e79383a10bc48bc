"""Small runs under compute-sanitizer: out-of-bounds accesses, races in shared memory, barriers, uninitialised reads."""
import concurrent.futures
import glob
import itertools
import os
import re
import shutil
import subprocess
import tempfile

from .bars import Bar, Section, not_run

PLACES = ["/usr/local/cuda*/bin/compute-sanitizer", "/usr/local/cuda*/compute-sanitizer/compute-sanitizer"]
# Results of API calls are not checked: the program does that itself, and libraries probe with calls that fail.
TOOLS = {
    "racecheck": ["--racecheck-report", "analysis"],
    "memcheck": ["--report-api-errors", "no"],
    "synccheck": [],
    "initcheck": [],
}
FLASH = {"impl": "flash", "mode": "hot", "backward": True, "calls_per_sample": 1}
WIDTHS = [(1, 2, 257, width) for width in (64, 72, 80, 96, 112, 128, 192, 256)]
MORE_HEADS = [(1, 40, 257, width) for width in (64, 80, 96, 112, 128)]  # too many for tiles of 64 keys in the backward
MORE_LONG_HEADS = [(1, 40, 1030, 64), (1, 40, 1030, 128)]  # with a mask shorter ones take two passes
WHOLE_HEADS = [(1, 132, 257, 64), (1, 264, 130, 96), (1, 140, 100, 128), (1, 132, 200, 128)]
ODD = [(1, 2, 200, 64), (2, 3, 130, 72)]
SHORT = [(1, 66, 140, 128), (1, 66, 140, 224), (1, 66, 140, 40)]  # as many tiles as multiprocessors: persistent blocks
# With a mask so many tiles that persistent blocks draw them.
DRAWN = [(1, 133, 380, 80), (1, 133, 380, 128), (1, 133, 380, 224), (1, 40, 1408, 64)]
# Every family of kernels, with lengths that are no multiple of a tile, some padded widths, both backward algorithms and
# both element sizes; of whole models vanilla runs the kernels of ops, compiled the generated ones.
RUNS = {
    "flash on Hopper": ("kernel", dict(FLASH, shape=WIDTHS, dtype="bf16")),
    "flash on Hopper, causal": ("kernel", dict(FLASH, shape=WIDTHS, dtype="bf16", causal=True)),
    "flash on Hopper, more heads": ("kernel", dict(FLASH, shape=MORE_HEADS, dtype="bf16")),
    "flash on Hopper, more heads, causal": ("kernel", dict(FLASH, shape=MORE_LONG_HEADS, dtype="bf16", causal=True)),
    "flash on Hopper, whole heads": ("kernel", dict(FLASH, shape=WHOLE_HEADS, dtype="bf16")),
    "flash on Hopper, whole heads, causal": ("kernel", dict(FLASH, shape=WHOLE_HEADS, dtype="bf16", causal=True)),
    "flash on Hopper, short and narrow": ("kernel", dict(FLASH, shape=SHORT, dtype="bf16")),
    "flash on Hopper, drawn tiles": ("kernel", dict(FLASH, shape=DRAWN, dtype="bf16", causal=True)),
    "flash in two passes": ("kernel", dict(FLASH, shape=ODD, dtype="bf16", backward_algorithm="two-pass", causal=True)),
    "flash in fp32": ("kernel", dict(FLASH, shape=ODD, dtype="fp32", backward_algorithm="single-pass", causal=True)),
    "flash in fp32, two passes": ("kernel", dict(FLASH, shape=ODD, dtype="fp32", backward_algorithm="two-pass")),
    "ops of attention": ("attention", {"impl": "naive", "dtype": ["fp32", "bf16"], "batch_size": 2,
                                       "seq_len": [77, 200], "d_model": 24}),
    "generated, attention": ("attention", {"impl": "compiled", "dtype": ["fp32", "bf16"], "batch_size": 2,
                                           "seq_len": [77], "d_model": 24}),
    "ops and generated, model": ("model", {"layers": 1, "d_model": 64, "d_ff": 128, "heads": 2, "vocabulary": 101,
                                           "context_length": 33, "batch_size": 2, "precision": ["fp32", "mixed"],
                                           "max_norm": 1}),
    "matrix products": ("gemm", {"size": [77], "dtype": ["fp32", "bf16"]}),
}
# initcheck does not see what TMA writes: it reports uninitialised reads of what the library's product wrote (torch.bmm
# followed by a multiplication gives 10112 such errors at 200 columns, none at 77). So products that a kernel reads have
# rows that are no multiple of 16 bytes there, for which the library does not use TMA.
WITHOUT_TMA = {
    "ops of attention": {"seq_len": [77], "d_model": 22},
    "ops and generated, model": {"d_model": 66, "d_ff": 134, "heads": 3},
}
TIMEOUT_S = 200
AT_ONCE = 12


def find_checker():
    found = shutil.which("compute-sanitizer")
    places = sorted((path for place in PLACES for path in glob.glob(place)), reverse=True)
    return found or next((path for path in places if os.access(path, os.X_OK)), None)


def run_once(ridgeline, study, options, before=()):
    """Runs a study, under a checker if `before` names one, and returns its output; None if it timed out."""
    few = {"warmup_steps": 0, "measure_steps": 1} if study == "model" else {"num_warmup": 0, "num_iterations": 1}
    with tempfile.TemporaryDirectory(prefix="ridgeline-results-") as results:
        command = [*before, *ridgeline.command(study, results, **few, **options)]
        try:
            return subprocess.run(command, env=ridgeline.environment(), timeout=TIMEOUT_S, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            return None


def check(checker, ridgeline, tool, family):
    """Returns the number of errors, or None, and the reason; prints it at once."""
    study, options = RUNS[family]
    if tool == "initcheck":
        options = options | WITHOUT_TMA.get(family, {})
    errors, said = answer(run_once(ridgeline, study, options,
                                   [checker, "--tool", tool, *TOOLS[tool], "--print-limit", "30"]))
    print(f"   {tool}, {family}: {'no answer' if errors is None else f'{errors} errors'} {said}", flush=True)
    return errors, said


def answer(done):
    if done is None:
        return None, f"not done after {TIMEOUT_S} s"
    found = re.search(r"ERROR SUMMARY: (\d+) error", done.stdout) or \
        re.search(r"RACECHECK SUMMARY: .*?(\d+) error", done.stdout)
    if found is None or (done.returncode != 0 and found[1] == "0"):
        return None, f"ended with {done.returncode}: {done.stdout.strip()[-1500:]}"
    errors = int(found[1])
    return errors, "" if errors == 0 else done.stdout[:3000]


def run(bench):
    checker = find_checker()
    if checker is None:
        return Section([not_run("checkers", "no compute-sanitizer on PATH or in /usr/local/cuda*")])
    each = list(itertools.product(TOOLS, RUNS))
    with concurrent.futures.ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        # Kernels are compiled beforehand, as checkers slow down compilers as well.
        list(pool.map(lambda run: run_once(bench.ridgeline, *run), RUNS.values()))
        answers = list(pool.map(lambda one: check(checker, bench.ridgeline, *one), each))
    data = [{"tool": tool, "family": family, "errors": errors, "said": said}
            for (tool, family), (errors, said) in zip(each, answers)]
    bars = []
    for tool in TOOLS:
        counts = [one["errors"] for one in data if one["tool"] == tool]
        figure = f"{sum(filter(None, counts))} errors in {len(counts) - counts.count(None)} families"
        if counts.count(None):
            figure += f", {counts.count(None)} without an answer"
        bars.append(Bar(tool, figure, "0 errors", counts == [0] * len(counts)))
    return Section(bars, data)
