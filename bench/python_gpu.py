"""Checks and times the Python package against PyTorch, on an NVIDIA GPU or a CPU, and ends with a table of bars.

  ./lab wheel                                            where there is internet; writes build/wheels/ridgeline-*.whl
  python3 -m pip install --no-deps build/wheels/*.whl    on the machine with the GPU, offline
  python3 bench/python_gpu.py                            everything, in about four minutes
  python3 bench/python_gpu.py --only cost,activate       two sections
  python3 bench/python_gpu.py --device cpu               score functions on the CPU, fp32 and bf16
  python3 bench/python_gpu.py --device cpu --tiny --only cost,activate,scores,together      tries sections without a GPU

Instead of the wheel, `PYTHONPATH=python RIDGELINE_LIBRARY=build/release/libridgeline.so` works. Needs PyTorch with CUDA
and NVRTC, which its wheels contain; 2.11 or newer for all sections, and transformers for `activate`. Every section
runs in its own processes with a time limit. Kernels are compiled into new folders, so that caches of earlier runs do
not count. Exit code: 0 no bar was missed, 1 one was, 2 no GPU.
"""

import argparse
import sys
import tempfile
import time

from python_sections import use_new_caches

FOLDER = tempfile.TemporaryDirectory()
use_new_caches(FOLDER.name)

import torch  # noqa: E402

import ridgeline  # noqa: E402
import ridgeline.torch  # noqa: E402
from python_sections import checks, cost, models, scores  # noqa: E402
from python_sections.harness import Bench, Row, in_processes  # noqa: E402


def _device(bench):
    """Runs in its own process, because one that has touched the GPU cannot be forked."""
    if bench.on_gpu and torch.cuda.is_available():
        yield Row("GPU", torch.cuda.get_device_name())
    elif not bench.on_gpu:
        yield Row("CPU", f"{torch.get_num_threads()} threads")


def _check_tasks(bench):
    count, step = bench.size((checks.PROBLEMS, 25), (40, 20))
    tests = {**checks.GPU_TESTS, **(checks.ONLY_ON_A_GPU if bench.on_gpu else {})}
    return ([(f"test: {name}", checks.test, (bench, name)) for name in tests] +
            [("problems", checks.problems, (bench, first, first + step)) for first in range(0, count, step)])  # fmt: skip


def _together(bench):
    """A task that compiles long and measures briefly, together with all checks."""
    return [("compile", models.compiled, (bench,)), *_check_tasks(bench)]


def _score_tasks(bench):
    """One process for each function and size, in which neither side has compiled anything."""
    return [(name, scores.scores, (bench, name, size, dtype)) for name in bench.functions
            for size in bench.size(scores.SIZES[bench.device], scores.TINY) for dtype in scores.DTYPES[bench.device]]


# Section: (time limit in seconds on a GPU, number of concurrent processes there, tasks as (name, function, arguments)).
SECTIONS = {
    "cost": (40, 1, lambda bench: [("cost", cost.cost, (bench,))]),
    "activate": (75, 1, lambda bench: [("activate", models.activated, (bench,))]),
    "memory": (20, 1, lambda bench: [("memory", checks.test, (bench, name)) for name in checks.ALONE if bench.on_gpu]),
    "scores": (180, 3, _score_tasks),
    "together": (150, 12, _together),
}


def _summed(rows):
    """Returns the rows with those of the problems summed into one."""
    parts = [row for row in rows if row.name == "problems" and row.bar]
    if not parts:
        return rows
    wrong, all_ = sum(int(row.value) for row in parts), sum(int(row.bar) for row in parts)
    others = [row for row in rows if row not in parts]
    return [*others, Row(f"wrong or failed of {all_} random problems", str(wrong), "<= 0", "MISSED" if wrong else "ok")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="sections, with commas between (default: all on a GPU, scores on a CPU)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes that only try the sections: figures mean nothing")
    parser.add_argument("--seconds", type=float, default=600, help="for all of it: later sections get what is left")
    parser.add_argument("--functions", default=",".join(checks.SIX), help="of the section `scores`, with commas between")
    options = parser.parse_args()
    bench = Bench(options.device, FOLDER.name, options.tiny)
    all_rows, end = [], time.monotonic() + options.seconds
    bench.functions = options.functions.split(",")
    ((_, (device,)),) = in_processes([("device", _device, (bench,))], 60)
    print(f"{device.name} {device.value}, PyTorch {torch.__version__}, ridgeline {ridgeline.__version__}", flush=True)
    if device.verdict:
        print("no GPU: torch.cuda.is_available() is false")
        return 2
    for name in (options.only or (",".join(SECTIONS) if bench.on_gpu else "scores")).split(","):
        limit, at_once, tasks = SECTIONS[name]
        if not bench.on_gpu:
            limit, at_once = options.seconds, 1
        begin, rows = time.monotonic(), []
        for task, made in in_processes(tasks(bench), min(limit, max(1, end - begin)), at_once):
            for row in made:
                print(f"  {task}: {row.name}: {row.value} {row.bar} {row.verdict}"[:300], flush=True)
            rows += made
        all_rows += [Row(f"-- {name}", f"{time.monotonic() - begin:.0f} s"), *_summed(rows)]
    width = max(len(row.name) for row in all_rows)
    print()
    for row in all_rows:
        print(f"{row.name:<{width}}  {row.value:<36} {row.bar:<7} {row.verdict}".rstrip())
    return 1 if any(row.verdict == "MISSED" for row in all_rows) else 0


if __name__ == "__main__":
    sys.exit(main())
