"""Flash attention in bf16 against SDPA's flash backend (FA2), with cuDNN's figures for information."""
import math

from . import peers
from .bars import Section, at_least
from .comparison import PHASES, Comparison, geometric_mean, milliseconds
from .ridgeline import Cell, cell_of, samples

TOKENS, MODEL_WIDTH = 16384, 2048
CELLS = [Cell("bf16", TOKENS // length, MODEL_WIDTH // width, length, width, causal)
         for causal in (False, True) for width in (64, 128, 256) for length in (1024, 4096, 16384)]
WARMUPS, ITERATIONS, QUICK_ITERATIONS = 3, 12, 6
MEAN_LIMIT, CELL_LIMIT = 1.0, 0.9


def our_pass(ridgeline, iterations, comparison):
    for causal in (False, True):
        for record in ridgeline.rows("kernel", impl="flash", dtype="bf16", mode="hot", backward=True, causal=causal,
                                     shape=[cell.shape for cell in CELLS if cell.causal == causal],
                                     calls_per_sample=1, num_warmup=WARMUPS, num_iterations=iterations,
                                     no_verify=True):
            for phase in PHASES:
                comparison.add("ours", cell_of(record), phase, samples(record, phase))


def sdpa_samples(backend, cell, iterations):
    qkv, d_output = peers.inputs(cell)
    attention = peers.sdpa(cell.causal)
    with peers.only(backend):
        peers.require_backend(attention(*qkv), backend)
        return peers.time_calls(attention, qkv, d_output, WARMUPS, iterations)


def torch_pass(backend, iterations, comparison):
    for cell in CELLS:
        for phase, taken in zip(PHASES, peers.or_nothing(sdpa_samples, backend, cell, iterations)):
            comparison.add(backend, cell, phase, taken)


def run(bench):
    iterations = QUICK_ITERATIONS if bench.quick else ITERATIONS
    # Enough blocks for the tiles of the real sizes.
    bench.ridgeline.compile_for("kernel", [{"shape": [(4, 16, 1024, width)], "causal": causal}
                                           for width in (64, 128, 256) for causal in (False, True)],
                                impl="flash", dtype="bf16", mode="hot", backward=True, calls_per_sample=1)
    comparison = Comparison()
    for who in bench.passes:
        if who == "ours":
            our_pass(bench.ridgeline, iterations, comparison)
        else:
            torch_pass("flash", iterations, comparison)
    torch_pass("cudnn", QUICK_ITERATIONS, comparison)
    return judge(comparison)


def judge(comparison):
    print("   ms SDPA flash / ours = speedup; TFLOP/s of ours, SDPA flash, cuDNN "
          "(forward 4 B H S S d, halved when causal; backward 2.5 times that)")
    speedups = {phase: {} for phase in PHASES}
    for cell in CELLS:
        line = f"   S={cell.length:<6} d={cell.width:<4}{'causal' if cell.causal else 'full':<7}"
        for phase in PHASES:
            ours, flash, cudnn = (comparison.median(who, cell, phase) for who in ("ours", "flash", "cudnn"))
            if math.isfinite(flash):
                speedups[phase][cell] = flash / ours
            rates = "/".join(f"{cell.flops(phase) / time / 1e9:.0f}" for time in (ours, flash, cudnn))
            speedup = speedups[phase].get(cell, math.nan)
            line += f" {phase}{milliseconds(flash)} /{milliseconds(ours)} = {speedup:5.2f}x {rates:<12}"
        print(line)
    bars = []
    for phase, found in speedups.items():
        worst = min(found, key=found.get, default=None)
        at = f" (S {worst.length}, d {worst.width}{', causal' if worst.causal else ''})" if worst else ""
        bars.append(at_least(f"flash bf16 {phase}, speedup over SDPA flash: geometric mean",
                             geometric_mean(list(found.values())), MEAN_LIMIT, "{:.3f}"))
        bars.append(at_least(f"flash bf16 {phase}, speedup over SDPA flash: worst cell{at}",
                             found.get(worst, math.nan), CELL_LIMIT, "{:.3f}"))
    return Section(bars, comparison.as_json())
