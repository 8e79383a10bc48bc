"""Whole models: `ridgeline model` against PyTorch's forms, each run in its own process, alternating."""
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from . import kernel_time
from .bars import at_least, at_most, not_run
from .ridgeline import command_line
from peers.torch_forms import FORMS, SCENARIOS

BATCH = 4
GIB = 1 << 30
# Target speedups over the best of PyTorch, by precision, size and scenario; other sizes have no bar.
SPEEDUPS = {
    ("mixed", "small"): {"forward": 1.0, "fwd-bwd": 1.1, "full-step": 1.36},
    ("mixed", "large"): {"forward": 1.0, "fwd-bwd": 1.1, "full-step": 1.30},
    ("mixed", "2.7B"): {"forward": 1.0, "fwd-bwd": 1.1, "full-step": 1.22},
    ("fp32", "small"): {"forward": 1.1, "fwd-bwd": 1.1, "full-step": 1.1},
    ("fp32", "2.7B"): {"forward": 1.0, "fwd-bwd": 1.0, "full-step": 1.0},
}
KERNEL_TIME_LIMIT = 1.05
READY_LIMITS_S = {"small": 5.0, "2.7B": 10.0}
CACHED_LIMIT_S = 1.5
MEMORY_SIZE = "2.7B"
PREDICTION_LIMIT_PERCENT = 3
WORKER_LIMIT_S = 580


class Model(NamedTuple):
    size: str
    context: int
    precision: str

    def __str__(self):
        return f"{self.size} {self.context} {self.precision}"


@dataclasses.dataclass
class Plan:
    """What to run."""
    scenarios: list[str]
    forms: list[str]
    device: str = "cuda"
    custom: list[int] | None = None  # width, feed-forward, layers, heads: a small stand-in for tests
    vocabulary: int | None = None
    warmups: int = 5
    iterations: int = 20
    verify: bool = True
    kernel_time_library: pathlib.Path | None = None


class Figures:
    """All samples and facts so far, by (model, program, scenario); kept in a file between calls."""

    def __init__(self, entries=()):
        self.entries = {(Model(*entry["model"]), entry["who"], entry["scenario"]): entry for entry in entries}

    def of(self, model, who, scenario):
        return self.entries.setdefault((model, who, scenario), {
            "model": list(model), "who": who, "scenario": scenario, "samples_ms": []})

    def get(self, model, who, scenario, name):
        return self.entries.get((model, who, scenario), {}).get(name)

    def median(self, model, who, scenario):
        taken = self.get(model, who, scenario, "samples_ms")
        return statistics.median(taken) if taken else None

    def models(self):
        return list(dict.fromkeys(model for model, _, _ in self.entries))

    def peers(self, model):
        return list(dict.fromkeys(who for of, who, _ in self.entries if of == model and not who.startswith("ours")))

    def best(self, model, scenario):
        """Returns the median and name of PyTorch's fastest form."""
        found = [(self.median(model, who, scenario), who) for who in self.peers(model)]
        return min((each for each in found if each[0]), default=(None, None))

    def as_json(self):
        return [dict(entry, median_ms=statistics.median(entry["samples_ms"]) if entry["samples_ms"] else None)
                for entry in self.entries.values()]


def our_options(plan, model, mode, **more):
    options = {"model_size": None if plan.custom else model.size, "context_length": model.context,
               "precision": model.precision, "batch_size": BATCH, "mode": mode, "scenario": plan.scenarios}
    if plan.custom:
        options.update(zip(("d_model", "d_ff", "layers", "heads"), plan.custom))
    if plan.vocabulary:
        options["vocabulary"] = plan.vocabulary
    return {**options, **more}


def our_pass(bench, plan, model, mode, figures, verify):
    """Runs one process of ridgeline and adds its samples to the figures."""
    [record] = bench.ridgeline.rows("model", **our_options(plan, model, mode, warmup_steps=plan.warmups,
                                                           measure_steps=plan.iterations, no_verify=not verify))
    for scenario in plan.scenarios:
        entry = figures.of(model, f"ours {mode}", scenario)
        series = scenario.replace("-", "_")
        if record["status"] != "ok":
            entry["error"] = f"{record['status']}: {record['error']}"
        if series in record["series"] and record["status"] in ("ok", "oom"):
            entry["samples_ms"] += record["series"][series]["samples_ms"]
        for name, value in record.get("metrics", {}).get(series, {}).items():
            if name != "driver_peak_growth_bytes" or not verify:  # a verifying run also holds vanilla's memory
                entry[name] = value


def torch_pass(plan, model, form, figures):
    """Runs one process of PyTorch and adds its samples to the figures."""
    options = {"size": None if plan.custom else model.size, "context": model.context,
               "precision": model.precision, "batch": BATCH, "form": form, "scenarios": plan.scenarios,
               "device": plan.device, "warmups": plan.warmups, "iterations": plan.iterations, "custom": plan.custom, "vocabulary": plan.vocabulary,
               "profile": form == "eager"}
    command = [sys.executable, "-m", "gpu_sections.torch_step", *command_line(options)]
    begin = time.monotonic()
    try:
        done = subprocess.run(command, cwd=pathlib.Path(__file__).parent.parent, capture_output=True, text=True,
                              timeout=WORKER_LIMIT_S)
        lines, problem = done.stdout, f"ended with {done.returncode}: {done.stderr.strip()[-300:]}"
    except subprocess.TimeoutExpired as error:
        lines = error.stdout.decode() if error.stdout else ""
        problem = f"not done after {WORKER_LIMIT_S} s"
    results = {entry["scenario"]: entry for entry in map(json.loads, lines.splitlines())}
    for scenario in plan.scenarios:
        if FORMS[form].cast_ahead and scenario != "forward":
            continue
        result = results.get(scenario, {"error": problem})
        entry = figures.of(model, form, scenario)
        entry["samples_ms"] += result.pop("samples_ms", [])
        entry.update(result)
        if "error" in result:
            print(f"   PyTorch {form} {model} {scenario}: {result['error']}", flush=True)
    print(f"   PyTorch {form} {model}: {time.monotonic() - begin:.0f} s", flush=True)


def compare(bench, plan, model, figures, save):
    """Runs ours before and after each form of PyTorch; our first run is verified against vanilla."""
    our_pass(bench, plan, model, "compiled", figures, verify=plan.verify)
    for form in plan.forms:
        if FORMS[form].cast_ahead and (model.precision != "mixed" or "forward" not in plan.scenarios):
            continue
        torch_pass(plan, model, form, figures)
        our_pass(bench, plan, model, "compiled", figures, verify=False)
        save()


def ready(bench, plan, model, figures):
    """Measures the seconds from process start to the end of the first step, less the initialisation of weights."""
    begin = time.monotonic()
    subprocess.run([str(bench.ridgeline.binary), "model", "--device", plan.device, "--dry-run", "--mode", "compiled",
                    *command_line({"d_model": 64, "d_ff": 64, "layers": 1, "heads": 1, "vocabulary": 64,
                                   "context_length": 16})],
                   env=bench.ridgeline.environment(), check=True, capture_output=True, timeout=60)
    opening = time.monotonic() - begin
    with tempfile.TemporaryDirectory(prefix="ridgeline-cache-") as cache:
        for when in ("fresh", "cached"):
            for scenario in plan.scenarios:
                # Scenarios share kernels, so each one gets its own cache.
                [record] = bench.ridgeline.rows(
                    "model", cache=pathlib.Path(cache) / scenario,
                    **our_options(plan, model, "compiled", scenario=[scenario], warmup_steps=1, measure_steps=1,
                                  no_verify=True))
                facts = record["metrics"][scenario.replace("-", "_")]
                entry = figures.of(model, "ours compiled", scenario)
                entry[f"ready_{when}_s"] = opening + facts["compile_seconds"] + facts["first_run_seconds"]
                entry["opening_s"] = opening


def kernel_times(bench, plan, model, figures):
    """Sums the kernel time of our vanilla: a run of more steps less one of fewer steps, which cancels the setup."""
    for scenario in plan.scenarios:
        entry = figures.of(model, "ours vanilla", scenario)
        sums = {}
        with tempfile.TemporaryDirectory(prefix="kernel-time-") as folder:
            for steps in (2, 12):
                file = pathlib.Path(folder) / f"{steps}"
                extra = kernel_time.environment(plan.kernel_time_library, file)
                bench.ridgeline.rows("model", variables=extra,
                                     **our_options(plan, model, "vanilla", scenario=[scenario], warmup_steps=2,
                                                   measure_steps=steps, no_verify=True))
                sums[steps] = kernel_time.read(file)
        entry["kernels"], entry["kernel_ms"] = ((more - fewer) / 10 for more, fewer in zip(sums[12], sums[2]))


def judge(figures):
    """Prints a line per model and scenario, and returns the bars of what was measured."""
    bars = []
    print("   median ms per step; speedup of ours over the best of PyTorch")
    for model in figures.models():
        for scenario in SCENARIOS:
            line, bar = speed(figures, model, scenario)
            if line:
                print(line)
            bars += bar
    for model in figures.models():
        bars += [bar for scenario in SCENARIOS for bar in kernels(figures, model, scenario)]
        bars += memory(figures, model) + ready_bars(figures, model)
    return bars


def speed(figures, model, scenario):
    ours = figures.median(model, "ours compiled", scenario)
    best, who = figures.best(model, scenario)
    peers = ", ".join(f"{form} {figures.median(model, form, scenario):.3f}" for form in figures.peers(model)
                      if figures.median(model, form, scenario))
    if not ours and not best:
        return "", []
    line = f"   {str(model):<18} {scenario:<10} ours {ours or float('nan'):9.3f}  {peers}"
    limit = SPEEDUPS.get((model.precision, model.size), {}).get(scenario)
    name = f"{model} {scenario}: speedup over PyTorch"
    if not best:
        return line, []
    if not ours:
        return line, [not_run(name, figures.get(model, "ours compiled", scenario, "error") or "no samples")]
    line += f"  {best / ours:.3f}x"
    return line, [at_least(f"{name} ({who})", best / ours, limit, "{:.3f}")] if limit else []


def kernels(figures, model, scenario):
    theirs = figures.get(model, "eager", scenario, "kernel_ms")
    if not theirs:
        return []
    ours = figures.get(model, "ours vanilla", scenario, "kernel_ms")
    how = "kernel time by CUPTI"
    if not ours:  # host gaps included: an upper bound
        ours, how = figures.median(model, "ours vanilla", scenario), "step time, an upper bound, by events"
    name = f"{model} {scenario}: vanilla / eager, {how}"
    return [at_most(name, ours / theirs, KERNEL_TIME_LIMIT, "{:.3f}")] if ours else [not_run(name, "no samples")]


def memory(figures, model):
    bars = []
    for scenario in SCENARIOS:
        predicted, measured = (figures.get(model, "ours compiled", scenario, name)
                               for name in ("predicted_peak_bytes", "peak_bytes"))
        if predicted and measured:
            bars.append(at_most(f"{model} {scenario}: predicted peak against the ledger's, %",
                                100 * abs(predicted / measured - 1), PREDICTION_LIMIT_PERCENT))
    ours = figures.get(model, "ours compiled", "full-step", "driver_peak_growth_bytes")
    theirs = [(figures.get(model, who, "full-step", "driver_growth_bytes"), who) for who in figures.peers(model)]
    theirs = [each for each in theirs if each[0]]
    if ours and theirs:
        best, who = min(theirs)
        print(f"   {model} full-step, GiB by the driver: ours {ours / GIB:.2f}, "
              + ", ".join(f"{form} {count / GIB:.2f}" for count, form in theirs))
        if model.size == MEMORY_SIZE:
            bars.append(at_most(f"{model} full-step: memory by the driver, ours / PyTorch ({who})", ours / best, 1.0,
                                "{:.3f}"))
    return bars


def ready_bars(figures, model):
    bars = []
    for when, limit in (("fresh", READY_LIMITS_S.get(model.size)), ("cached", CACHED_LIMIT_S)):
        seconds = figures.get(model, "ours compiled", "full-step", f"ready_{when}_s")
        if seconds and limit:
            bars.append(at_most(f"{model} full-step: ready from process start, {when}, s", seconds, limit))
    return bars
