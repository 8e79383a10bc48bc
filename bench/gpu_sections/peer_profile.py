"""Profiles PyTorch's models through ridgeline and by torch.profiler in separate processes: both must show the same
kernels, numbers of invocations and times."""
import json
import os
import pathlib
import statistics
import subprocess
import sys

from .bars import Section, at_most, failed
from .ridgeline import command_line

FORMS = {"torch.eager": "eager", "torch.compile.sdpa": "compile", "torch.compile.reduce-overhead": "reduce-overhead"}
OURS = ["vanilla", "compiled"]
SIZE, CONTEXT, BATCH, PRECISION, SCENARIO = "small", 512, 4, "mixed", "full-step"
LIMIT_PERCENT = 2
LIMIT_S = 300


def through_ridgeline(bench, implementations):
    """Returns, by implementation, the invocations and milliseconds of one step, or the reason for their absence."""
    os.environ["RIDGELINE_PYTHON"] = sys.executable
    records = bench.ridgeline.rows("profile", impl=implementations, model_size=SIZE, context_length=CONTEXT,
                                   batch_size=BATCH, precision=PRECISION, scenario=SCENARIO)
    figures = {}
    for record in records:
        phases = record.get("metrics", {}).get("folds", {}).get("phase", [])
        figures[record["implementation"]] = {
            "error": record["error"], "kernels": sum(row["invocations"] for row in phases),
            "ms": sum(row["total_ms"] for row in phases),
            "phases": {row["key"]: [row["invocations"], row["total_ms"]] for row in phases},
            "starts": record.get("metrics", {}).get("starts")}
    return figures


def plain(form):
    options = {"size": SIZE, "context": CONTEXT, "batch": BATCH, "precision": PRECISION, "form": form,
               "scenarios": SCENARIO, "iterations": 5, "profile": True}
    done = subprocess.run([sys.executable, "-m", "gpu_sections.torch_step", *command_line(options)],
                          cwd=pathlib.Path(__file__).parent.parent, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise RuntimeError(f"torch_step {form} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    if "error" in result:
        raise RuntimeError(f"torch_step {form}: {result['error']}")
    return {"kernels": result["kernels"], "ms": result["kernel_ms"]}


def compare(bench, name, form):
    sides = {"torch": [], "ours": []}
    for side in bench.passes:
        figures = plain(form) if side == "torch" else through_ridgeline(bench, [name])[name]
        if figures.get("error"):
            return [failed(f"{name}: profiled through ridgeline", figures["error"][:100])], figures
        print(f"   {name}, {'torch.profiler' if side == 'torch' else 'ridgeline'}: {figures['kernels']:g} kernels, "
              f"{figures['ms']:.4f} ms {figures.get('phases', '')}", flush=True)
        sides[side].append(figures)
    counts = {side: sorted({each["kernels"] for each in taken}) for side, taken in sides.items()}
    ms = {side: statistics.median(each["ms"] for each in taken) for side, taken in sides.items()}
    different = max(abs(ours - theirs) for ours in counts["ours"] for theirs in counts["torch"])
    return [at_most(f"{name}: kernels of a step that ridgeline and torch.profiler differ by", different, 0, "{:g}"),
            at_most(f"{name}: GPU time through ridgeline and by torch.profiler, %",
                    100 * abs(ms["ours"] / ms["torch"] - 1), LIMIT_PERCENT)], sides


def run(bench):
    bars, data = [], {}
    forms = dict(list(FORMS.items())[:1]) if bench.quick else FORMS  # torch.compile takes minutes
    for name, form in forms.items():
        found, data[name] = compare(bench, name, form)
        bars += found
    data["side by side"] = through_ridgeline(bench, [*forms, *OURS])
    for name, figures in data["side by side"].items():
        print(f"   side by side: {name}: {figures['kernels']:g} kernels, {figures['ms']:.4f} ms, "
              f"{figures['starts']:g} starts, {figures['phases']}" if not figures["error"] else
              f"   side by side: {name}: {figures['error'][:200]}", flush=True)
    return Section(bars, data)
