"""Times bf16 on a CPU with AMX against PyTorch: the roof, a product, attention, and a training step in mixed precision.

  python3 bench/amx.py                    roof, product 2048, attention grid: about a minute on 16 cores
  python3 bench/amx.py step               small's mixed step against our fp32 step and torch.compile under autocast
  python3 bench/amx.py product attention  only these two

Needs PyTorch and a built ridgeline (--ridgeline names one other than build/release's); `step` also needs peers/ of this
tree. Each side runs in its own process, in the order A B B A; a figure is the median of all samples, printed with the
ratio of the minima. A ratio above 1 means that ridgeline is faster. Samples go to --results-dir as JSON.

If PyTorch's oneDNN dies of an illegal instruction (on virtual machines that hide the processor's tile sizes), a message
says so, and ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment makes it run without AMX.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PHASES = ("forward", "backward")


def timed(work, seconds, least=5, most=400):
    """Returns the milliseconds of calls repeated for `seconds`, after a warm-up of a quarter of that time."""
    taken, start = [], time.perf_counter()
    while time.perf_counter() - start < seconds / 4 or not taken:
        work()
        taken = [0]
    taken, start = [], time.perf_counter()
    while len(taken) < least or (time.perf_counter() - start < seconds and len(taken) < most):
        taken.append(work())
    return taken


def torch_child(request):
    """Returns the samples of the child process as {cell: {phase: samples}}."""
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(request["threads"])
    if "product" in request:
        size = request["product"]
        a, b = (torch.randn(size, size).to(torch.bfloat16) for _ in range(2))

        def multiply():
            begin = time.perf_counter()
            a @ b
            return (time.perf_counter() - begin) * 1e3
        return {"product": {"forward": timed(multiply, request["seconds"])}}
    result = {}
    for length, width, causal in request["cells"]:
        shape = (request["batch"], request["heads"], length, width)
        q, k, v = (torch.randn(shape).to(torch.bfloat16).requires_grad_() for _ in range(3))
        gradient = torch.randn(shape).to(torch.bfloat16)

        def attend():
            q.grad = k.grad = v.grad = None
            begin = time.perf_counter()
            out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            middle = time.perf_counter()
            out.backward(gradient)
            return (middle - begin) * 1e3, (time.perf_counter() - middle) * 1e3
        both = timed(attend, 2 * request["seconds"])
        result[name_of(length, width, causal)] = {phase: [pair[i] for pair in both] for i, phase in enumerate(PHASES)}
    return result


def name_of(length, width, causal):
    return f"S {length:<5} d {width:<4} {'causal' if causal else 'full':<6}"


def run_torch(request):
    done = subprocess.run([sys.executable, __file__, "--child", json.dumps(request)], capture_output=True, text=True)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        signal = " (illegal instruction)" if done.returncode == -4 else ""
        raise RuntimeError(f"PyTorch ended with status {done.returncode}{signal}: {last[0]}")
    return json.loads(done.stdout.splitlines()[-1])


def run_ridgeline(args, command, name):
    folder = args.results_dir / name
    records = folder / command[0] / f"{command[0]}.jsonl"
    records.unlink(missing_ok=True)
    subprocess.run([str(args.ridgeline), *command, "--device", "cpu", "--threads", str(args.threads), "--results-dir",
                    str(folder)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    for row in rows:
        if row["status"] != "ok":
            raise RuntimeError(f"ridgeline: {row['status']}: {row['error']}")
    return rows


def our_product(args, size):
    rows = run_ridgeline(args, ["gemm", "--impl", "simd", "--op", "gemm", "--size", str(size), "--dtype", "bf16",
                                "--time-budget", f"{args.seconds}s", "--no-verify"], "product")
    return {"product": {"forward": next(iter(rows[0]["series"].values()))["samples_ms"]}}


def our_attention(args, cells):
    result = {}
    lists = [",".join(str(value) for value in sorted({cell[i] for cell in cells})) for i in (0, 1)]
    for causal in (False, True):
        rows = run_ridgeline(args, ["attention", "--impl", "flash", "--dtype", "bf16", "--seq-len", lists[0],
                                    "--d-model", lists[1], "--batch-size", str(args.batch_size), "--heads",
                                    str(args.heads), "--time-budget", f"{args.seconds}s", "--no-verify",
                                    *(["--causal"] if causal else [])], f"attention-{'causal' if causal else 'full'}")
        for row in rows:
            workload = row["workload"]
            result[name_of(workload["seq_len"], workload["d_model"], causal)] = {
                phase: row["series"][phase]["samples_ms"] for phase in PHASES}
    return result


def merged(into, more):
    for cell, phases in more.items():
        for phase, samples in phases.items():
            into.setdefault(cell, {}).setdefault(phase, []).extend(samples)


def alternate(args, name, ours, theirs):
    """Returns the samples of both sides in alternating order; those of PyTorch are None if it could not run."""
    sides = {"ridgeline": {}, "torch": {}}
    failure = None
    for turn in range(args.rounds):
        for side, run in (("ridgeline", ours), ("torch", theirs)) if turn % 2 == 0 else \
                         (("torch", theirs), ("ridgeline", ours)):
            if side == "torch" and failure:
                continue
            try:
                merged(sides[side], run())
            except RuntimeError as error:
                if side == "ridgeline":
                    raise
                failure = error
    if failure:
        print(f"  no PyTorch: {failure}")
        sides["torch"] = None
    (args.results_dir / f"{name}.json").write_text(json.dumps(sides))
    return sides


def ratio(theirs, ours):
    by_median = statistics.median(theirs) / statistics.median(ours)
    return by_median, min(theirs) / min(ours)


def roof(args):
    rows = run_ridgeline(args, ["roofline", "--dtype", "bf16", "--size", "512", "--settle-time", "0.3s",
                                "--time-budget", "0.1s", "--no-plot"], "roof")
    found = [row for row in rows if row["implementation"] == "amx"]
    if not found:
        raise SystemExit("this CPU has no AMX, or the system grants none of it: nothing to compare (see `ridgeline doctor`)")
    rate = found[0]["metrics"]["gflops_per_s"]
    print(f"AMX roof: {rate / 1e3:.2f} TFLOP/s on {args.threads} threads (products of tiles of ones, in registers)")
    return rate


def product(args, roof_rate):
    sides = alternate(args, "product", lambda: our_product(args, 2048),
                      lambda: run_torch({"product": 2048, "threads": args.threads, "seconds": args.seconds}))
    flops = 2 * 2048**3
    ours = sides["ridgeline"]["product"]["forward"]
    rate = flops / statistics.median(ours) / 1e6
    line = (f"product 2048, bf16: ridgeline {rate / 1e3:.2f} TFLOP/s ({100 * rate / roof_rate:.0f} % of the roof, by the "
            f"least {100 * flops / min(ours) / 1e6 / roof_rate:.0f} %)")
    if sides["torch"]:
        theirs = sides["torch"]["product"]["forward"]
        by_median, by_least = ratio(theirs, ours)
        line += f", PyTorch {flops / statistics.median(theirs) / 1e9:.2f}: {by_median:.2f}x ({by_least:.2f}x by the least)"
    print(line, flush=True)


def attention(args):
    cells = [(length, width, causal) for length in args.seq_len for width in args.d_model for causal in (False, True)]
    request = {"cells": cells, "batch": args.batch_size, "heads": args.heads, "threads": args.threads,
               "seconds": args.seconds / 4}
    sides = alternate(args, "attention", lambda: our_attention(args, cells), lambda: run_torch(request))
    print(f"attention, bf16, batch {args.batch_size}, {args.heads} heads: ms of SDPA / ridgeline = ratio (by the least)")
    ratios = {phase: [] for phase in PHASES}
    for cell in (name_of(*each) for each in cells):
        line = f"  {cell}"
        for phase in PHASES:
            ours = sides["ridgeline"][cell][phase]
            if sides["torch"] is None:
                line += f"  {phase} {statistics.median(ours):9.3f}"
                continue
            theirs = sides["torch"][cell][phase]
            by_median, by_least = ratio(theirs, ours)
            ratios[phase].append(by_median)
            line += (f"  {phase} {statistics.median(theirs):9.3f} / {statistics.median(ours):9.3f} = {by_median:5.2f}x "
                     f"({by_least:.2f}x)")
        print(line)
    for phase, values in ratios.items():
        if values:
            print(f"  {phase}: geometric mean {statistics.geometric_mean(values):.2f}x, worst {min(values):.2f}x")


def our_step(args, precision):
    rows = run_ridgeline(args, ["model", "--model-size", "small", "--context-length", str(args.context), "--batch-size",
                                "4", "--precision", precision, "--mode", "compiled", "--scenario", "full-step",
                                "--optimizer", "pytorch", "--warmup-steps", "2", "--measure-steps", "8", "--no-verify"],
                         f"step-{precision}")
    return rows[0]["series"]["full_step"]["samples_ms"]


def step(args):
    print(f"small, context {args.context}, batch 4, full step with AdamW, {args.threads} threads: ms, median (least)")
    taken = {}
    for who in ("mixed", "fp32"):
        taken[who] = our_step(args, who)
        print(f"  ridgeline {who:<6} {statistics.median(taken[who]):8.1f} ({min(taken[who]):.1f})", flush=True)
    by_median, by_least = ratio(taken["fp32"], taken["mixed"])
    print(f"  mixed beside our fp32: {by_median:.2f}x ({by_least:.2f}x by the least)", flush=True)
    if not (HERE / "gpu_sections/torch_step.py").exists():
        print("  no PyTorch: bench/gpu_sections/torch_step.py and peers/ are not here")
        return
    command = [sys.executable, "-m", "gpu_sections.torch_step", "--size", "small", "--context", str(args.context),
               "--batch", "4", "--precision", "mixed", "--device", "cpu", "--form", "compile", "--scenarios", "full-step",
               "--warmups", "2", "--iterations", "8", "--threads", str(args.threads)]
    try:
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=args.torch_limit)
    except subprocess.TimeoutExpired:
        print(f"  no PyTorch: torch.compile was not done after {args.torch_limit} s (--torch-limit)")
        return
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines or "error" in json.loads(lines[-1]):
        print(f"  no PyTorch: status {done.returncode}: {(lines or done.stderr.splitlines() or ['no message'])[-1]}")
        return
    taken["torch"] = json.loads(lines[-1])["samples_ms"]
    by_median, by_least = ratio(taken["torch"], taken["mixed"])
    print(f"  torch.compile, bf16 autocast {statistics.median(taken['torch']):8.1f} ({min(taken['torch']):.1f}) = "
          f"{by_median:.2f}x ({by_least:.2f}x by the least)")
    (args.results_dir / "step.json").write_text(json.dumps(taken))


def main():
    numbers = lambda text: [int(part) for part in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["product", "attention"], metavar="product | attention | step")
    parser.add_argument("--ridgeline", type=pathlib.Path, default=HERE.parent / "build/release/ridgeline")
    parser.add_argument("--results-dir", type=pathlib.Path, default=pathlib.Path("results/amx"))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.6, help="of samples, for each row and round")
    parser.add_argument("--seq-len", type=numbers, default=[256, 1024, 4096])
    parser.add_argument("--d-model", type=numbers, default=[64, 128])
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--torch-limit", type=float, default=120, help="seconds for torch.compile and its steps")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(torch_child(args.child)))
        return
    unknown = set(args.what) - {"product", "attention", "step"}
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: expected product, attention or step")
    args.ridgeline = args.ridgeline.resolve()
    args.results_dir.mkdir(parents=True, exist_ok=True)
    args.results_dir = args.results_dir.resolve()
    if "product" in args.what:
        product(args, roof(args))
    if "attention" in args.what:
        attention(args)
    if "step" in args.what:
        step(args)


if __name__ == "__main__":
    main()
