"""Times a whole model, or compiled attention, of ridgeline against PyTorch on this CPU: same sizes, same threads.

  python bench/cpu_model_vs_torch.py model                       small, context 128, batch 4, fp32, full step
  python bench/cpu_model_vs_torch.py attention --seq-len 256,1024  our compiled against torch.compile

Needs PyTorch and a built ridgeline. Every run is a separate process, in the order A B B A ...; a figure is the median
over all samples of all rounds, printed with the minimum, which other work on the machine disturbs less. Compile seconds
are those of the first round, which starts from empty caches. A ratio above 1: ridgeline is faster.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BINARY = HERE.parent / "build/release/ridgeline"


class Side:
    """The samples and compile times of one of the two programs, over all rounds."""

    def __init__(self):
        self.samples, self.compile_s = {}, []

    def add(self, samples, compile_s):
        for phase, taken in samples.items():
            self.samples.setdefault(phase, []).extend(taken)
        self.compile_s.append(compile_s)


def run_ridgeline(args, command, cache):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([str(args.ridgeline), *command, "--device", "cpu", "--threads", str(args.threads), "--no-verify",
                        "--results-dir", folder], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, RIDGELINE_CACHE_DIR=cache))
        record = json.loads((pathlib.Path(folder) / command[0] / f"{command[0]}.jsonl").read_text())
    if record["status"] != "ok":
        raise RuntimeError(f"ridgeline: {record['status']}: {record['error']}")
    return {name: series["samples_ms"] for name, series in record["series"].items()}, record["metrics"]


def run_torch(args, module, options, cache):
    done = subprocess.run([sys.executable, "-m", module, *options, "--threads", str(args.threads)], cwd=HERE,
                          check=True, capture_output=True, text=True,
                          env=dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache))
    result = json.loads(done.stdout.splitlines()[-1])
    if "error" in result:
        raise RuntimeError(f"PyTorch: {result['error']}")
    return result


def our_model(args, cache):
    command = ["model", "--model-size", args.size, "--context-length", str(args.context), "--batch-size",
               str(args.batch_size), "--precision", "fp32", "--mode", "compiled", "--scenario", args.scenario,
               "--optimizer", "pytorch", "--warmup-steps", str(args.warmups), "--measure-steps", str(args.iterations)]
    samples, metrics = run_ridgeline(args, command, cache)
    series = args.scenario.replace("-", "_")
    return {"step": samples[series]}, metrics[series]["compile_seconds"]


def torch_model(args, form, cache):
    result = run_torch(args, "gpu_sections.torch_step",
                       ["--size", args.size, "--context", str(args.context), "--batch", str(args.batch_size),
                        "--precision", "fp32", "--device", "cpu", "--form", form, "--scenarios", args.scenario,
                        "--warmups", str(args.warmups), "--iterations", str(args.iterations)], cache)
    # The first run is compilation and one step.
    return {"step": result["samples_ms"]}, result["first_run_s"] - statistics.median(result["samples_ms"]) / 1e3


def our_attention(args, cell, cache):
    length, width = cell
    command = ["attention", "--impl", "compiled", "--batch-size", str(args.batch_size), "--seq-len", str(length),
                   "--d-model", str(width), "--dtype", "fp32", "--num-warmup", str(args.warmups),
                   "--num-iterations", str(args.iterations)]
    samples, metrics = run_ridgeline(args, command, cache)
    return samples, metrics["compile_seconds"]


def torch_attention(args, cell, cache):
    length, width = cell
    result = run_torch(args, "gpu_sections.torch_attention",
                       ["--batch", str(args.batch_size), "--length", str(length), "--width", str(width),
                        "--warmups", str(args.warmups), "--iterations", str(args.iterations)], cache)
    return result["samples_ms"], result["compile_s"]


def alternate(args, programs):
    """Runs each program in every round, reversing the order from round to round; the first round has empty caches."""
    sides = {name: Side() for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.rounds):
            for name in list(programs) if turn % 2 == 0 else reversed(programs):
                sides[name].add(*programs[name](os.path.join(folder, name)))
    return sides


def report(title, sides):
    ours = sides["ridgeline"]
    print(title)
    for phase, taken in ours.samples.items():
        line = f"  {phase:<9} ridgeline {statistics.median(taken):10.3f} ms (least {min(taken):.3f})"
        for name, side in sides.items():
            if side is not ours:
                theirs = side.samples[phase]
                line += (f"  {name} {statistics.median(theirs):10.3f} (least {min(theirs):.3f}) = "
                         f"{statistics.median(theirs) / statistics.median(taken):.3f}x "
                         f"({min(theirs) / min(taken):.3f}x by the least)")
        print(line)
    print("  compile seconds, nothing cached: "
          + ", ".join(f"{name} {side.compile_s[0]:.2f}" for name, side in sides.items()), flush=True)


def main():
    numbers = lambda text: [int(part) for part in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["model", "attention"])
    parser.add_argument("--ridgeline", type=pathlib.Path, default=BINARY)
    parser.add_argument("--size", default="small")
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--scenario", default="full-step")
    parser.add_argument("--forms", type=lambda text: text.split(","), default=["compile"], help="of PyTorch")
    parser.add_argument("--seq-len", type=numbers, default=[256, 1024, 4096])
    parser.add_argument("--d-model", type=numbers, default=[16, 32, 64, 128])
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--warmups", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=5)
    args = parser.parse_args()
    args.ridgeline = args.ridgeline.resolve()
    args.batch_size = args.batch_size or {"model": 4, "attention": 8}[args.what]
    if args.what == "model":
        programs = {"ridgeline": lambda cache: our_model(args, cache)}
        for form in args.forms:
            programs[form] = lambda cache, form=form: torch_model(args, form, cache)
        report(f"{args.size}, context {args.context}, batch {args.batch_size}, fp32, {args.scenario}, "
               f"{args.threads} threads", alternate(args, programs))
        return
    for cell in [(length, width) for length in args.seq_len for width in args.d_model]:
        programs = {"ridgeline": lambda cache, cell=cell: our_attention(args, cell, cache),
                    "torch.compile": lambda cache, cell=cell: torch_attention(args, cell, cache)}
        report(f"attention, batch {args.batch_size}, S {cell[0]}, d {cell[1]}, fp32, {args.threads} threads",
               alternate(args, programs))


if __name__ == "__main__":
    main()
