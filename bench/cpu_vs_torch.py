"""Times ridgeline against PyTorch on this CPU: same sizes, same threads.

  python bench/cpu_vs_torch.py attention --impl naive                     against PyTorch eager
  python bench/cpu_vs_torch.py attention --impl flash --dtype fp32,bf16   against scaled_dot_product_attention
  python bench/cpu_vs_torch.py attention --impl compiled                  against torch.compile
  python bench/cpu_vs_torch.py model                                      a full step of small in fp32
  python bench/cpu_vs_torch.py model --precision mixed,fp32               in mixed precision, and our fp32 beside it
  python bench/cpu_vs_torch.py product                                    bf16, and its share of the roof of AMX

Needs PyTorch and a built ridgeline. Every run is a separate process, in the order A B B A ...; a figure is the median over all
samples of all rounds, printed with the minimum, which other work on the machine disturbs less. On both sides forward keeps what
backward needs, and backward includes no forward. Compile seconds are those of the first round, which starts from empty caches.
A ratio above 1: ridgeline is faster.

If PyTorch's oneDNN dies of an illegal instruction (on virtual machines that hide the processor's tile sizes), a message
says so, and ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment makes it run without AMX.
"""
import argparse
import itertools
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from gpu_sections.ridgeline import Cell, Ridgeline, command_line

HERE = pathlib.Path(__file__).resolve().parent
PEERS = {"naive": "torch.naive", "flash": "torch.sdpa", "compiled": "torch.compile"}
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def torch_product(request):
    import torch
    size = request["size"]
    a, b = (torch.randn(size, size).to(getattr(torch, request["dtype"])) for _ in range(2))

    def multiply():
        begin = time.perf_counter()
        a @ b
        return {"product": 1e3 * (time.perf_counter() - begin)}
    return multiply


def torch_attention(request):
    import torch
    from peers.torch_implementations import make
    attention = make(request | {"study": "attention"}, "cpu")
    q, k, v, d_output = (torch.randn(request["shape"]).to(getattr(torch, request["dtype"])) for _ in range(4))
    inputs = [each.requires_grad_() for each in (q, k, v)]

    def attend():
        begin = time.perf_counter()
        output = attention(*inputs)
        middle = time.perf_counter()
        torch.autograd.grad(output, inputs, d_output)
        end = time.perf_counter()
        attention.check(output)
        return {"forward": 1e3 * (middle - begin), "backward": 1e3 * (end - middle)}
    return attend


def torch_child(request):
    """Returns the samples of a process of PyTorch by phase, taken for `seconds` after a warm-up of a quarter of that time."""
    import torch
    torch.set_num_threads(request["threads"])
    work = torch_product(request) if "size" in request else torch_attention(request)
    first = sum(work().values())
    start = time.perf_counter()
    while time.perf_counter() - start < request["seconds"] / 4:
        work()
    taken, start = [], time.perf_counter()
    while len(taken) < 5 or (time.perf_counter() - start < request["seconds"] and len(taken) < 400):
        taken.append(work())
    samples = {phase: [each[phase] for each in taken] for phase in taken[0]}
    return {"samples_ms": samples, "compile_s": (first - sum(map(min, samples.values()))) / 1e3}


def run_torch(args, cache, *words):
    """Returns the JSON line of a process of PyTorch. Raises RuntimeError if there is none."""
    try:
        done = subprocess.run([sys.executable, *words], cwd=HERE, capture_output=True, text=True, timeout=args.torch_limit,
                              env=dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache))
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"it was not done after {args.torch_limit} s (--torch-limit)") from None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        illegal = " (illegal instruction)" if done.returncode == -signal.SIGILL else ""
        raise RuntimeError(f"it ended with status {done.returncode}{illegal}: {last}")
    result = json.loads(lines[-1])
    if "error" in result:
        raise RuntimeError(result["error"])
    return result


def run_child(args, cache, **request):
    request |= {"threads": args.threads, "seconds": args.seconds, "dtype": DTYPES[request["dtype"]]}
    result = run_torch(args, cache, str(HERE / "cpu_vs_torch.py"), "--child", json.dumps(request))
    return result["samples_ms"], result["compile_s"]


def run_ridgeline(args, cache, study, **options):
    rows = Ridgeline(args.ridgeline, cache, device="cpu").rows(study, threads=args.threads, **options)
    if any(row["status"] != "ok" for row in rows):
        raise SystemExit("ridgeline has no figure to compare")
    return rows


class Side:
    """The samples and compile times of one of the programs, over all rounds, or why it cannot run."""

    def __init__(self):
        self.samples, self.compile_s, self.failure = {}, [], None

    def run(self, program, cache):
        try:
            samples, compile_s = program(cache)
        except RuntimeError as error:
            self.failure = error
            return
        for phase, taken in samples.items():
            self.samples.setdefault(phase, []).extend(taken)
        self.compile_s.append(compile_s)


def compare(args, title, programs):
    """Runs each program in every round, reversing the order from round to round, and prints all beside the first, which is
    ours; returns its samples and the ratios of the medians, by phase."""
    sides = {name: Side() for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.rounds):
            for name in list(programs) if turn % 2 == 0 else reversed(programs):
                if not sides[name].failure:
                    sides[name].run(programs[name], os.path.join(folder, name))
    first, *others = sides
    for name in others:
        if sides[name].failure:
            print(f"  no {name}: {sides.pop(name).failure}")
    ours, ratios = sides[first], {}
    if ours.failure:
        raise SystemExit(f"{first}: {ours.failure}")
    print(title)
    for phase, taken in ours.samples.items():
        line = f"  {phase:<9} {first} {statistics.median(taken):10.3f} ms (least {min(taken):.3f})"
        for name, side in list(sides.items())[1:]:
            theirs = side.samples[phase]
            ratios[phase] = statistics.median(theirs) / statistics.median(taken)
            line += (f"  {name} {statistics.median(theirs):10.3f} (least {min(theirs):.3f}) = {ratios[phase]:.3f}x "
                     f"({min(theirs) / min(taken):.3f}x by the least)")
        print(line, flush=True)
    if any(side.compile_s[0] is not None for side in sides.values()):
        print("  compile seconds, nothing cached: " + ", ".join(
            f"{name} {side.compile_s[0]:.2f}" for name, side in sides.items() if side.compile_s[0] is not None), flush=True)
    return ours.samples, ratios


def attention(args):
    peer, ratios = PEERS[args.impl], {}

    def ours(cell, cache):
        row, = run_ridgeline(args, cache, "attention", impl=args.impl, dtype=cell.dtype, batch_size=cell.batch,
                             heads=cell.heads, seq_len=cell.length, d_model=cell.width, causal=cell.causal,
                             backward=args.backward, time_budget=f"{args.seconds}s", no_verify=True)
        samples = {phase: row["series"][phase]["samples_ms"] for phase in ("forward", "backward")}
        return samples, row["metrics"].get("compile_seconds")

    def theirs(cell, cache):
        samples, compile_s = run_child(args, cache, implementation=peer, dtype=cell.dtype, shape=cell.shape, causal=cell.causal)
        return samples, compile_s if args.impl == "compiled" else None

    causal = {"no": [False], "yes": [True], "both": [False, True]}[args.causal]
    for dtype, length, width, masked in itertools.product(args.dtype, args.seq_len, args.d_model, causal):
        cell = Cell(dtype, args.batch_size, args.heads, length, width, masked)
        _, found = compare(args, str(cell), {args.impl: lambda cache, cell=cell: ours(cell, cache),
                                             peer: lambda cache, cell=cell: theirs(cell, cache)})
        for phase, ratio in found.items():
            ratios.setdefault(phase, []).append(ratio)
    for phase, values in ratios.items():
        print(f"{phase}: geometric mean {statistics.geometric_mean(values):.2f}x, worst cell {min(values):.2f}x")


def model(args):
    def ours(precision, cache):
        row, = run_ridgeline(args, cache, "model", model_size=args.size, context_length=args.context,
                             batch_size=args.batch_size, precision=precision, mode="compiled", scenario=args.scenario,
                             optimizer="pytorch", warmup_steps=args.warmups, measure_steps=args.iterations, no_verify=True)
        series = args.scenario.replace("-", "_")
        return {"step": row["series"][series]["samples_ms"]}, row["metrics"][series]["compile_seconds"]

    def theirs(form, cache):
        result = run_torch(args, cache, "-m", "gpu_sections.torch_step", *command_line({
            "size": args.size, "context": args.context, "batch": args.batch_size, "precision": args.precision[0],
            "device": "cpu", "form": form, "scenarios": args.scenario, "warmups": args.warmups,
            "iterations": args.iterations, "threads": args.threads}))
        # The first run is compilation and one step.
        return {"step": result["samples_ms"]}, result["first_run_s"] - statistics.median(result["samples_ms"]) / 1e3

    programs = {f"ridgeline {each}": lambda cache, each=each: ours(each, cache) for each in args.precision}
    programs |= {form: lambda cache, form=form: theirs(form, cache) for form in args.forms}
    compare(args, f"{args.size}, context {args.context}, batch {args.batch_size}, {args.scenario}; PyTorch in "
                  f"{args.precision[0]}", programs)


def product(args):
    def ours(dtype, cache):
        row, = run_ridgeline(args, cache, "gemm", impl="simd", op="gemm", size=args.size, dtype=dtype,
                             time_budget=f"{args.seconds}s", no_verify=True)
        return {"product": next(iter(row["series"].values()))["samples_ms"]}, None

    for dtype in args.dtype:
        taken, _ = compare(args, f"product {args.size}, {dtype}", {
            "ridgeline": lambda cache, dtype=dtype: ours(dtype, cache),
            "torch": lambda cache, dtype=dtype: (run_child(args, cache, size=args.size, dtype=dtype)[0], None)})
        rate, best = (2 * args.size**3 / by(taken["product"]) / 1e6 for by in (statistics.median, min))
        print(f"  ridgeline {rate / 1e3:.2f} TFLOP/s{share_of_roof(args, dtype, rate, best)}", flush=True)


def share_of_roof(args, dtype, rate, best):
    """Returns the share of the rate of AMX on tiles of ones in registers, where there is AMX."""
    with tempfile.TemporaryDirectory() as cache:
        rows = run_ridgeline(args, cache, "roofline", dtype=dtype, size=512, settle_time="0.3s", time_budget="0.1s", no_plot=True)
    for row in rows:
        if row["implementation"] == "amx":
            roof = row["metrics"]["gflops_per_s"]
            return (f", {100 * rate / roof:.0f} % of the AMX roof of {roof / 1e3:.2f} (by the least {100 * best / roof:.0f} %)")
    return ""


def main():
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(torch_child(json.loads(sys.argv[2]))))
        return
    numbers = lambda text: [int(part) for part in text.split(",")]
    words = lambda text: text.split(",")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--ridgeline", type=pathlib.Path, default=HERE.parent / "build/release/ridgeline")
    shared.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    shared.add_argument("--rounds", type=int, default=2)
    shared.add_argument("--torch-limit", type=float, default=600, help="seconds for a process of PyTorch, compilation included")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="attention | model | product")

    def command(run):
        made = commands.add_parser(run.__name__, parents=[shared], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        made.set_defaults(run=run)
        return made
    of_attention, of_model, of_product = (command(run) for run in (attention, model, product))
    of_attention.add_argument("--impl", choices=list(PEERS), default="flash")
    of_attention.add_argument("--dtype", type=words, default=["fp32"])
    of_attention.add_argument("--causal", choices=["no", "yes", "both"], default="no")
    of_attention.add_argument("--seq-len", type=numbers, default=[256, 1024, 4096])
    of_attention.add_argument("--d-model", type=numbers, default=[64, 128])
    of_attention.add_argument("--batch-size", type=int, default=8)
    of_attention.add_argument("--heads", type=int, default=1)
    of_attention.add_argument("--backward", default="single-pass")
    of_product.add_argument("--size", type=int, default=2048)
    of_product.add_argument("--dtype", type=words, default=["bf16"])
    for each in (of_attention, of_product):
        each.add_argument("--seconds", type=float, default=0.6, help="of samples, for each row and round")
    of_model.add_argument("--size", default="small")
    of_model.add_argument("--context", type=int, default=128)
    of_model.add_argument("--batch-size", type=int, default=4)
    of_model.add_argument("--scenario", default="full-step")
    of_model.add_argument("--precision", type=words, default=["fp32"], help="of ridgeline; PyTorch runs the first one")
    of_model.add_argument("--forms", type=words, default=["compile"], help="of PyTorch")
    of_model.add_argument("--warmups", type=int, default=2)
    of_model.add_argument("--iterations", type=int, default=5)
    args = parser.parse_args()
    args.ridgeline = args.ridgeline.resolve()
    print(f"{args.threads} threads, {args.rounds} rounds")
    args.run(args)


if __name__ == "__main__":
    main()
