"""Runs steps of a problem under torch.profiler, on ridgeline's schedule."""
import gzip
import json
import os
import shutil
import statistics
import tempfile
import time

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from .kineto_trace import RANGE, STEP, steps_of
from .refusal import Refusal
from .torch_library import refusing

MOST_WORK = 80_000  # pieces of work in one step, so that an answer stays below 4 MiB


def prepare(problem):
    """Makes the CPU kernels of torch.compile visible to the profiler; must run before anything is compiled."""
    if not problem.has_queue:
        import torch._inductor.config
        torch._inductor.config.cpp.enable_kernel_profile = True


def marked(phase):
    return record_function(RANGE + phase)


def untraced(problem, count):
    """Returns the median time of a step on the host. Runs before any tracing, whose overhead may persist."""
    taken = []
    for _ in range(count):
        begin = time.perf_counter()
        problem.step()
        problem.wait()
        taken.append(1e3 * (time.perf_counter() - begin))
    return {"untraced_step_ms": statistics.median(taken)}


def record(problem, plan, path):
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if problem.has_queue else [])
    with profile(activities=activities, schedule=schedule(**plan, repeat=1),
                 on_trace_ready=lambda profiler: profiler.export_chrome_trace(path)) as profiler:
        for _ in range(sum(plan.values())):
            with marked(STEP):
                problem.step(marked)
                problem.wait()
            profiler.step()


def keep(source, path):
    """Copies PyTorch's own trace, compressed if the name ends in .gz; returns the reason if that fails."""
    try:
        with open(source, "rb") as trace, (gzip.open if path.endswith(".gz") else open)(path, "wb") as file:
            shutil.copyfileobj(trace, file)
    except OSError as error:
        return {"trace_not_written": f"cannot write {path}: {error.strerror or error}"}
    return {}


def run(problem, request):
    """Returns a summary of the run, and the list of its steps."""
    plan = {part: request["schedule"][part] for part in ("wait", "warmup", "active")}
    with refusing(), tempfile.TemporaryDirectory(prefix="ridgeline-trace-") as folder:
        summary = untraced(problem, plan["active"])
        path = os.path.join(folder, "trace.json")
        record(problem, plan, path)
        with open(path, encoding="utf-8", errors="replace") as file:
            steps = steps_of(json.load(file), problem.has_queue)
        summary |= keep(path, request["trace"]) if request["trace"] else {}
    most = max((len(step["work"]) for step in steps), default=0)
    if most > MOST_WORK:
        raise Refusal("unsupported", f"a step of {most} pieces of work is too long for one answer, which has at most "
                                     f"{MOST_WORK}", "profile a smaller model")
    what = "CUPTI" if problem.has_queue else "self time of operations"
    return summary | {"source": f"torch.profiler {torch.__version__}, {what}", "steps": len(steps)}, steps
