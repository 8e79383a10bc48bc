"""Attention at fp32 accuracy against the best of PyTorch's naive, torch.compile and SDPA efficient."""
import math

import torch
from torch._dynamo.utils import counters

from . import peers
from .bars import Section, at_least, at_most
from .comparison import PHASES, Comparison, geometric_mean, milliseconds
from .ridgeline import Cell, cell_of, samples

CELLS = [Cell("fp32", 8, 1, length, width) for length in (4096, 16384) for width in (64, 128)]
PEERS = ("eager", "compiled", "efficient")
WARMUPS, ITERATIONS, QUICK_ITERATIONS = 2, 6, 3
SPEEDUP_LIMIT, ERROR_LIMIT = 1.2, 2.0


def compiled_eager(qkv):
    """Returns torch.compile of eager for these shapes; raises if it silently fell back."""
    torch._dynamo.reset()
    counters.clear()
    attention = torch.compile(peers.eager, dynamic=False, fullgraph=True)
    attention(*qkv)
    if counters["stats"]["unique_graphs"] < 1:
        raise RuntimeError("torch.compile ran eager")
    return attention


def peer_samples(peer, cell, iterations, compiled):
    """Returns the samples of a peer; `compiled` keeps compiled functions by cell from pass to pass."""
    qkv, d_output = peers.inputs(cell, with_heads=peer == "efficient")
    if peer == "efficient":
        attention = peers.sdpa(False)
        with peers.only(peer):
            peers.require_backend(attention(*qkv), peer)
            return peers.time_calls(attention, qkv, d_output, WARMUPS, iterations)
    attention = peers.eager
    if peer == "compiled":
        if cell not in compiled:
            compiled[cell] = compiled_eager(qkv)
        attention = compiled[cell]
    return peers.time_calls(attention, qkv, d_output, WARMUPS, iterations)


def our_pass(ridgeline, cell, iterations, comparison):
    for record in ridgeline.rows("kernel", impl="flash", dtype="fp32", mode="hot", backward=True, shape=[cell.shape],
                                 calls_per_sample=1, num_warmup=WARMUPS, num_iterations=iterations, no_verify=True):
        for phase in PHASES:
            comparison.add("ours", cell_of(record), phase, samples(record, phase))


def largest_errors(ridgeline):
    """Returns the largest errors of whole tensors against fp64 as {(width, tensor): (flash, plain fp32)}."""
    errors = {}
    for record in ridgeline.rows("attention", impl=["naive", "flash"], dtype="fp32", batch_size=2, seq_len=1024,
                                 d_model=[64, 128], num_warmup=0, num_iterations=1):
        for tensor, entry in record["verification"].get("tensors", {}).items():
            errors.setdefault((cell_of(record).width, tensor), {})[record["implementation"]] = entry["max_error"]
    return {key: (entry["flash"], entry["naive"]) for key, entry in errors.items() if len(entry) == 2}


def run(bench):
    iterations = QUICK_ITERATIONS if bench.quick else ITERATIONS
    bench.ridgeline.compile_for("kernel", [{"shape": [cell.shape]} for cell in CELLS],
                                impl="flash", dtype="fp32", mode="hot", backward=True, calls_per_sample=1)
    comparison = Comparison()
    for cell in CELLS:
        compiled = {}
        for who in bench.passes:  # cell by cell, since torch.compile takes seconds for each
            if who == "ours":
                our_pass(bench.ridgeline, cell, iterations, comparison)
                continue
            for peer in PEERS:
                taken = peers.or_nothing(peer_samples, peer, cell, iterations, compiled)
                for phase, phase_samples in zip(PHASES, taken):
                    comparison.add(peer, cell, phase, phase_samples)
    return judge(comparison, largest_errors(bench.ridgeline))


def judge(comparison, errors):
    print(f"   ms {', '.join(PEERS)}; ours; speedup over the best of them")
    speedups = {phase: [] for phase in PHASES}
    for cell in CELLS:
        for phase in PHASES:
            ours = comparison.median("ours", cell, phase)
            best, name = comparison.best(PEERS, cell, phase)
            if math.isfinite(best):
                speedups[phase].append(best / ours)
            print(f"   S={cell.length:<6} d={cell.width:<4}{phase:<9}"
                  + "".join(milliseconds(comparison.median(peer, cell, phase)) for peer in PEERS)
                  + f";{milliseconds(ours)}; {best / ours:5.2f}x {name}")
    print("   largest error against fp64, flash / plain fp32, S 1024:")
    for (width, tensor), (flash, plain) in errors.items():
        print(f"   d={width:<4}{tensor:<7}{flash:9.2e} / {plain:9.2e} = {flash / plain:4.2f}")
    bars = [at_least(f"fp32 {phase}, speedup over the best of PyTorch: geometric mean",
                     geometric_mean(found), SPEEDUP_LIMIT) for phase, found in speedups.items()]
    worst = max((flash / plain for flash, plain in errors.values()), default=math.nan)
    bars.append(at_most("fp32 error against fp64, over plain fp32's", worst, ERROR_LIMIT))
    return Section(bars, {"times": comparison.as_json(),
                          "errors": [{"width": width, "tensor": tensor, "flash": flash, "plain": plain}
                                     for (width, tensor), (flash, plain) in errors.items()]})
