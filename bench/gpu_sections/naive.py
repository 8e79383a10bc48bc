"""Naive attention against PyTorch eager over the study's grid."""
import math

from . import peers
from .bars import Section, at_most
from .comparison import PHASES, Comparison, geometric_mean, milliseconds
from .ridgeline import Cell, cell_of, samples

DTYPES = ["fp32", "bf16"]
BATCH = 8
WIDTHS = [16, 32, 64, 128]
# Lengths with their warm-ups and samples per pass: short rows are noisier and cheaper.
PARTS = [([256, 1024], 20, 60), ([4096, 8192, 16384], 3, 10)]
QUICK_PARTS = [([256, 1024], 10, 30), ([4096, 8192, 16384], 2, 5)]
MEAN_LIMIT, CELL_LIMIT = 1.0, 1.1


def cells(lengths, dtypes=DTYPES):
    return [Cell(dtype, BATCH, 1, length, width) for dtype in dtypes for length in lengths for width in WIDTHS]


def our_pass(ridgeline, parts, comparison):
    for lengths, warmups, iterations in parts:
        for record in ridgeline.rows("attention", impl="naive", batch_size=BATCH, seq_len=lengths, d_model=WIDTHS,
                                     dtype=DTYPES, num_warmup=warmups, num_iterations=iterations, no_verify=True):
            for phase in PHASES:
                comparison.add("ours", cell_of(record), phase, samples(record, phase))


def eager_samples(cell, warmups, iterations):
    qkv, d_output = peers.inputs(cell, with_heads=False)
    return peers.time_stages(peers.eager, qkv, d_output, warmups, iterations)


def torch_pass(parts, comparison):
    for lengths, warmups, iterations in parts:
        for cell in cells(lengths):
            for phase, taken in zip(PHASES, peers.or_nothing(eager_samples, cell, warmups, iterations)):
                comparison.add("torch", cell, phase, taken)


def run(bench):
    parts = QUICK_PARTS if bench.quick else PARTS
    lengths = [length for part in parts for length in part[0]]
    bench.ridgeline.compile_for("attention", [{"dtype": dtype, "seq_len": length} for dtype in DTYPES
                                              for length in lengths], impl="naive", batch_size=BATCH, d_model=16)
    comparison = Comparison()
    for who in bench.passes:
        if who == "ours":
            our_pass(bench.ridgeline, parts, comparison)
        else:
            torch_pass(parts, comparison)
    return judge(comparison, lengths)


def judge(comparison, lengths):
    print("   ms, eager / ours, and the ratio ours / eager: below 1 ours is faster")
    bars, worst_bars = [], []
    for dtype in DTYPES:
        ratios = {phase: {} for phase in PHASES}
        for cell in cells(lengths, [dtype]):
            line = f"   {dtype} S={cell.length:<6} d={cell.width:<4}"
            for phase in PHASES:
                ours, theirs = (comparison.median(who, cell, phase) for who in ("ours", "torch"))
                line += f"  {phase} {milliseconds(theirs)} /{milliseconds(ours)}"
                if math.isfinite(theirs):
                    ratios[phase][cell] = ours / theirs
                    line += f" = {ours / theirs:5.2f}"
            print(line)
        for phase, found in ratios.items():
            name = f"naive {dtype} {phase}, ours / eager"
            worst = max(found, key=found.get, default=None)
            at = f" (S {worst.length}, d {worst.width})" if worst else ""
            mean = geometric_mean(list(found.values()))
            bars.append(at_most(f"{name}: geometric mean", mean, MEAN_LIMIT, "{:.3f}"))
            worst_bars.append(at_most(f"{name}: worst cell{at}", found.get(worst, math.nan), CELL_LIMIT, "{:.3f}"))
    return Section(bars + worst_bars, comparison.as_json())
