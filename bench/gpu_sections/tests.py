"""Runs the GPU tests of the test programs."""
import concurrent.futures
import os
import re
import subprocess

from .bars import Bar, Section, not_run

ON_A_GPU = "*Gpu*:*GPU*:*uda*:*Nvml*:*Nccl*:-*Slow*"
OBSERVE_MEMORY = "CudaDevice.*"
# Program, its tests, and the number of concurrent processes: some tests observe the whole GPU's memory.
PROGRAMS = [
    ("runtime_tests", OBSERVE_MEMORY, 1),
    ("runtime_tests", f"{ON_A_GPU}:{OBSERVE_MEMORY}", 8),
    ("jit_tests", "CudaJit*:*CompileVariants*:*CompileSample*:-*Slow*", 1),
    ("kernels_tests", ON_A_GPU, 8),
    ("models_tests", ON_A_GPU, 4),
    ("studies_tests", ON_A_GPU, 4),
    ("compile_tests", ON_A_GPU, 2),
    ("dist_tests", ON_A_GPU, 1),
    ("api_tests", ON_A_GPU, 1),
]
TWO_PASS = "CudaFlash.TwoPassBackwardGivesTheSameBitsInEveryRun"
NO_GPU = "needs an NVIDIA GPU"
TIMEOUT_S = 240


def outcomes(text):
    """Returns {test: (outcome, reason)}: passed, failed or skipped. A test that began and did not end has failed."""
    found = {}
    words = {"RUN": "failed", "OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
    begun = 0
    for line in re.finditer(r"^\[ +(RUN|OK|FAILED|SKIPPED) +\] ([\w/]+\.[\w/]+)", text, re.MULTILINE):
        word, name = line.groups()
        if word == "RUN":
            begun = line.end()
        why = re.search(r"Skipped\n(.*)", text[begun:line.start()])
        if name not in found or found[name][0] == "failed":  # the summary repeats the others
            found[name] = (words[word], why[1] if why else "")
    return found


def run_program(path, tests, environment):
    try:
        done = subprocess.run([str(path), f"--gtest_filter={tests}"], env=environment, timeout=TIMEOUT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text, problem = done.stdout, None if done.returncode in (0, 1) else f"ended with {done.returncode}"
    except subprocess.TimeoutExpired as late:
        text, problem = late.stdout or b"", f"stopped after {TIMEOUT_S} s"
    text = text.decode(errors="replace")
    found = outcomes(text)
    failures = [name for name, (outcome, _) in found.items() if outcome == "failed"]
    if problem or failures:
        print(f"   {path.name}: {problem or 'failures'}\n{text[-4000:]}", flush=True)
    if problem and not failures:
        found[path.name] = ("failed", problem)
    return found


def run(bench):
    missing = [name for name, _, _ in PROGRAMS if not (bench.tests / name).is_file()]
    if missing:
        return Section([not_run("GPU tests", f"no {', '.join(missing)} in {bench.tests}: see --tests")])
    found = {}
    for name, tests, shards in PROGRAMS:
        environments = [dict(bench.ridgeline.environment(), GTEST_COLOR="no", GTEST_TOTAL_SHARDS=str(shards),
                             GTEST_SHARD_INDEX=str(shard)) for shard in range(shards)]
        with concurrent.futures.ThreadPoolExecutor(max_workers=min(shards, os.cpu_count())) as pool:
            for part in pool.map(lambda each: run_program(bench.tests / name, tests, each), environments):
                found.update(part)
    return judge(found)


def judge(found):
    names = {outcome: sorted(name for name in found if found[name][0] == outcome)
             for outcome in ("passed", "failed", "skipped")}
    for outcome in ("failed", "skipped"):
        for name in names[outcome]:
            print(f"   {outcome}: {name}: {found[name][1]}"[:160])
    counts = ", ".join(f"{len(each)} {outcome}" for outcome, each in names.items())
    print(f"   {counts}")
    without_gpu = [name for name in names["skipped"] if NO_GPU in found[name][1]]
    if without_gpu:
        counts += f" ({len(without_gpu)} saw no GPU)"
    bars = [Bar("GPU tests", counts, "0 failed", bool(names["passed"]) and not names["failed"] and not without_gpu)]
    same = found.get(TWO_PASS, ("missing", ""))[0]
    bars.append(Bar("two-pass backward has the same bits in every run", same, "passed", same == "passed"))
    return Section(bars, names)
