"""Times whole models of ridgeline against PyTorch's best forms on an NVIDIA GPU, and ends with a table of bars.

  python3 bench/gpu_model.py --sizes small --json model.json             one size, PyTorch's quickest good form
  python3 bench/gpu_model.py --sizes 2.7B --peers best --json model.json  all forms; added to earlier figures
  python3 bench/gpu_model.py --judge model.json                          the bars of a file, without running anything

Parts: `speed` alternates processes (ours, a form of PyTorch, ours, ...), `ready` starts with an empty and with a full
kernel cache, `kernels` sums the kernel time of our vanilla and of PyTorch eager. A call may run one size only: figures
are added to those in --json. Exit code: 0 no bar was missed, 1 one was, 2 bad usage or no GPU.
"""
import argparse
import json
import pathlib
import sys
import tempfile
import time
import traceback

from gpu_sections import kernel_time, model
from gpu_sections.bars import failed, finite, print_bars
from gpu_sections.ridgeline import Bench, Ridgeline
from peers.torch_forms import FORMS, PEERS, SCENARIOS

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = ("speed", "ready", "kernels")
PRECISIONS = ("mixed", "fp32")


def listed(choices=None, of=str):
    def parse(text):
        values = [of(part) for part in text.split(",")]
        for value in values:
            if choices and value not in choices:
                raise argparse.ArgumentTypeError(f"'{value}' is none of {', '.join(map(str, choices))}")
        return values
    return parse


def forms(text):
    return PEERS[text] if text in PEERS else listed(FORMS)(text)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ridgeline", type=pathlib.Path, default=ROOT / "build/release/ridgeline")
    parser.add_argument("--sizes", type=listed(), default=["small"], metavar="SIZE,...")
    parser.add_argument("--contexts", type=listed(of=int), default=[512], metavar="LENGTH,...")
    parser.add_argument("--precisions", type=listed(PRECISIONS), default=["mixed"], metavar="mixed,fp32")
    parser.add_argument("--scenarios", type=listed(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--peers", type=forms, default=PEERS["quick"], metavar="FORM,...",
                        help=f"{', '.join(PEERS)}, or forms of {', '.join(FORMS)} (default: quick)")
    parser.add_argument("--parts", type=listed(PARTS), default=["speed"], metavar="PART,...")
    parser.add_argument("--warmups", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--no-verify", action="store_true", help="do not compare the first run with vanilla")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="figures of this and earlier calls")
    parser.add_argument("--judge", type=pathlib.Path, metavar="FILE", help="only the bars of these figures")
    parser.add_argument("--kernel-time-library", type=pathlib.Path, metavar="FILE",
                        help="gpu_sections/kernel_time.cc, already compiled; without it a compiler is needed")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: tries this script out")
    parser.add_argument("--custom", type=listed(of=int), metavar="D,FF,LAYERS,HEADS", help="instead of the sizes' own")
    parser.add_argument("--vocabulary", type=int)
    args = parser.parse_args()
    if args.custom:
        args.sizes = ["custom"]
    return args


def read_figures(path):
    return model.Figures(json.loads(path.read_text())["figures"] if path and path.is_file() else ())


def measure(args, bench, figures, folder):
    """Runs all parts; returns the bars of parts that failed."""
    plan = model.Plan(scenarios=args.scenarios, forms=args.peers, device=args.device, custom=args.custom,
                      vocabulary=args.vocabulary, warmups=args.warmups, iterations=args.iterations,
                      verify=not args.no_verify, kernel_time_library=args.kernel_time_library)

    def save():
        if args.json:
            args.json.write_text(json.dumps({"figures": finite(figures.as_json())}, indent=1) + "\n")

    def kernels(of):
        model.torch_pass(plan, of, "eager", figures)
        model.our_pass(bench, plan, of, "vanilla", figures, verify=False)
        plan.kernel_time_library = plan.kernel_time_library or kernel_time.build(folder)
        model.kernel_times(bench, plan, of, figures)

    parts = {"speed": lambda of: model.compare(bench, plan, of, figures, save),
             "ready": lambda of: model.ready(bench, plan, of, figures),
             "kernels": kernels}
    broken = []
    for part in args.parts:
        for size in args.sizes:
            for context in args.contexts:
                for precision in args.precisions:
                    of = model.Model(size, context, precision)
                    begin = time.monotonic()
                    try:
                        parts[part](of)
                    except Exception as error:  # the other models continue
                        traceback.print_exc(file=sys.stdout)
                        broken.append(failed(f"{of} {part}: ended early", f"{type(error).__name__}: {error}"[:100]))
                    save()
                    print(f"-- {part} {of}: {time.monotonic() - begin:.0f} s", flush=True)
    return broken


def main():
    args = parse_arguments()
    if args.judge:
        bars = model.judge(read_figures(args.judge))
        print_bars(bars)
        return 1 if any(bar.passed is False for bar in bars) else 0
    if not args.ridgeline.is_file():
        print(f"no program at {args.ridgeline}: build it, or say where it is with --ridgeline", file=sys.stderr)
        return 2
    figures = read_figures(args.json)
    with tempfile.TemporaryDirectory(prefix="ridgeline-model-") as folder:
        ridgeline = Ridgeline(binary=args.ridgeline.resolve(), cache=pathlib.Path(folder), device=args.device)
        if problem := ridgeline.why_no_gpu():
            print(problem, file=sys.stderr)
            return 2
        broken = measure(args, Bench(ridgeline=ridgeline, tests=ROOT), figures, folder)
    bars = model.judge(figures) + broken
    print()
    print_bars(bars)
    print(f"\nridgeline {ridgeline.build or 'of unknown build'}")
    return 1 if any(bar.passed is False for bar in bars) else 0


if __name__ == "__main__":
    sys.exit(main())
