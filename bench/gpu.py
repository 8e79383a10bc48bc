"""Checks and times ridgeline on an NVIDIA GPU against PyTorch in the same run, and ends with a table of bars.

  python3 bench/gpu.py                                 everything; torch.compile takes minutes
  python3 bench/gpu.py --only flash,kernel --quick     two sections, fewer repetitions
  python3 bench/gpu.py --json figures.json             all figures, sample medians included

Needs a built ridgeline and PyTorch with CUDA. Kernels are compiled into a new folder, so that caches of earlier runs
do not count. Exit code: 0 no bar was missed, 1 one was, 2 bad usage or no GPU.
"""
import argparse
import datetime
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

from gpu_sections.bars import Section, failed, print_bars
from gpu_sections.ridgeline import Bench, Ridgeline

SECTIONS = {
    "tests": "the GPU tests",
    "sanitizers": "every family of kernels under NVIDIA's checkers of memory, races, barriers and initialisation",
    "naive": "naive attention against PyTorch eager, the study's grid",
    "flash": "flash attention in bf16 against SDPA flash, 16384 tokens",
    "cudnn": "flash attention in bf16 against cuDNN's, inside launch graphs: 18 cells, drawn and named shapes",
    "fp32": "attention at fp32 accuracy against the best of PyTorch",
    "kernel": "small problems inside a launch graph against SDPA",
    "jit": "a kernel never seen before, and from the disk cache",
    "clock": "the same machine code by PyTorch's clocks",
    "memory": "peak memory against the driver's count",
    "ceilings": "measured ceilings against PyTorch's products and copies",
    "own_kernel": "kernels of users: a good one, and the verdicts of broken ones",
    "peer_rows": "PyTorch through ridgeline, and timed here",
    "peer_profile": "models of PyTorch profiled through ridgeline, and by torch.profiler alone",
}
ROOT = pathlib.Path(__file__).resolve().parent.parent
GPU_FACTS = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu,power.draw"


def gpu_state():
    """Returns what nvidia-smi reports of the first GPU, or why it failed."""
    try:
        answer = subprocess.run(["nvidia-smi", f"--query-gpu={GPU_FACTS}", "--format=csv,noheader", "--id=0"],
                                capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"unknown": f"nvidia-smi: {error}"}
    if answer.returncode != 0:
        return {"unknown": f"nvidia-smi: {answer.stdout.strip() or answer.stderr.strip()}"}
    return dict(zip(GPU_FACTS.split(","), (value.strip() for value in answer.stdout.split(","))))


def torch_versions():
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}


def run_section(name, bench):
    print(f"\n== {name}: {SECTIONS[name]}", flush=True)
    start = time.monotonic()
    try:
        section = importlib.import_module(f"gpu_sections.{name}").run(bench)
    except Exception as error:  # the other sections continue
        traceback.print_exc(file=sys.stdout)
        section = Section([failed(f"{name}: ended early", f"{type(error).__name__}: {error}"[:100])])
    section.seconds = time.monotonic() - start
    print(f"-- {name}: {section.seconds:.1f} s", flush=True)
    return section


def chosen_sections(text):
    names = text.split(",")
    for name in names:
        if name not in SECTIONS:
            raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(SECTIONS)}")
    return [name for name in SECTIONS if name in names]


def parse_arguments():
    sections = "\n".join(f"  {name:<12} {what}" for name, what in SECTIONS.items())
    parser = argparse.ArgumentParser(description=__doc__, epilog=f"sections:\n{sections}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ridgeline", type=pathlib.Path, default=ROOT / "build/release/ridgeline",
                        help="the program (default: %(default)s)")
    parser.add_argument("--tests", type=pathlib.Path, default=ROOT / "build/release/tests",
                        help="folder of the test programs (default: %(default)s)")
    parser.add_argument("--only", type=chosen_sections, default=list(SECTIONS), metavar="SECTION,...")
    parser.add_argument("--quick", action="store_true", help="one pass per side and fewer samples")
    parser.add_argument("--tune", choices=["off", "quick", "full"], default="off", help="handed to the program; the library, in section cudnn, tunes nothing")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="everything that was measured")
    args = parser.parse_args()
    if not args.ridgeline.is_file():
        parser.error(f"no program at {args.ridgeline}: build it, or say where it is with --ridgeline")
    return args


def main():
    args = parse_arguments()
    start = time.monotonic()
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    before = gpu_state()
    with tempfile.TemporaryDirectory(prefix="ridgeline-gpu-") as folder:
        ridgeline = Ridgeline(binary=args.ridgeline.resolve(), cache=pathlib.Path(folder), tune=args.tune)
        if problem := ridgeline.why_no_gpu():
            print(problem, file=sys.stderr)
            return 2
        ridgeline.read_build()
        bench = Bench(ridgeline=ridgeline, tests=args.tests.resolve(), quick=args.quick)
        sections = {name: run_section(name, bench) for name in args.only}
    after = gpu_state()

    bars = [bar for section in sections.values() for bar in section.bars]
    seconds = time.monotonic() - start
    print()
    print_bars(bars)
    print(f"\n{date}, {seconds:.0f} s in all: "
          + ", ".join(f"{name} {section.seconds:.0f}" for name, section in sections.items()))
    print("ridgeline " + (ridgeline.build or "of unknown build") + f", tuning of the program {args.tune}; "
          + ", ".join(f"{name} {version}" for name, version in torch_versions().items()))
    if ridgeline.clocks_mhz:
        print(f"SM clock at the end of ridgeline's rows: {min(ridgeline.clocks_mhz):.0f} to "
              f"{max(ridgeline.clocks_mhz):.0f} MHz")
    for when, state in (("before", before), ("after", after)):
        print(f"GPU {when}: " + ", ".join(f"{name} {value}" for name, value in state.items()))
    if args.json:
        args.json.write_text(json.dumps(
            {"date": date, "seconds": seconds, "gpu_before": before, "gpu_after": after,
             "versions": torch_versions(), "ridgeline": ridgeline.build, "tune": args.tune, "quick": args.quick,
             "sections": {name: section.as_json() for name, section in sections.items()}}, indent=1) + "\n")
    return 1 if any(bar.passed is False for bar in bars) else 0


if __name__ == "__main__":
    sys.exit(main())
