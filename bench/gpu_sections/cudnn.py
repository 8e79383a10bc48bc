"""Flash attention in bf16 against cuDNN's: 18 cells of 16384 tokens, shapes drawn from a seed, and named shapes. Both
run in this process on the same tensors, inside launch graphs that take turns in random order, on one clock; ours through
the Python package. Rates are also compared with the largest product in the same run."""
import concurrent.futures
import functools
import math
import os
import pathlib
import random
import sys

import torch

from . import peers
from .bars import Section, at_least
from .comparison import PHASES, Comparison, geometric_mean
from .ridgeline import Cell

TOKENS, MODEL_WIDTH = 16384, 2048
GRID = [Cell("bf16", TOKENS // length, MODEL_WIDTH // width, length, width, causal)
        for causal in (False, True) for width in (64, 128, 256) for length in (1024, 4096, 16384)]
NAMED = [Cell("bf16", 64, 16, 512, 128, True), Cell("bf16", 1, 40, 8192, 72), Cell("bf16", 128, 12, 197, 64),
         Cell("bf16", 1, 16, 16384, 64, True)]
LEADERBOARD = NAMED[-1]
DRAWN, SEED = 40, 7
WIDTHS = (40, 48, 56, 64, 72, 80, 96, 104, 112, 128, 160, 192, 208, 256)
LENGTHS = (64, 32768)
MOST_ELEMENTS = 2**27  # of a tensor
MOST_FLOPS = 3e12      # of a forward pass
NAMES = {"ours": "ridgeline", "cudnn": "PyTorch"}
WARMUPS, ITERATIONS, QUICK_ITERATIONS = 2, 9, 5
SAMPLE_S, MOST_CALLS = 1e-3, 20  # of a launch graph
PRODUCT_SIZE = 8192

FORWARD_MEAN, FORWARD_WIDE_FULL, FORWARD_CELL = 1.02, 0.93, 0.97
BACKWARD_MEAN, BACKWARD_CELL = 1.08, 1.0
DRAWN_MEAN, DRAWN_CELL = 1.0, 0.9
LEADERBOARD_MS = 3.9
PRODUCT_SHARE = 0.88


def drawn_cells():
    """Draws lengths uniformly by logarithm, and realistic numbers of heads and batches that fit memory and time."""
    drawn = random.Random(SEED)
    cells = []
    while len(cells) < DRAWN:
        length = round(math.exp(drawn.uniform(*map(math.log, LENGTHS))))
        cell = Cell("bf16", 2**drawn.randrange(8), drawn.choice((1, 2, 4, 8, 12, 16, 32, 40)), length,
                    drawn.choice(WIDTHS), drawn.random() < 0.5)
        if math.prod(cell.shape) <= MOST_ELEMENTS and cell.flops("forward") <= MOST_FLOPS:
            cells.append(cell)
    return cells


def calls_of(cell):
    """Returns the number of calls in a launch graph: enough for a sample of a millisecond."""
    return max(1, min(MOST_CALLS, int(SAMPLE_S / (cell.flops("forward") / 5e14))))


def our_kernels(ridgeline):
    """Returns the Python package's kernels on tensors. They are those of the library beside the program, and compiled
    into the bench's own folder."""
    os.environ["RIDGELINE_CACHE_DIR"] = str(ridgeline.cache)
    os.environ["RIDGELINE_LIBRARY"] = str(ridgeline.binary.parent / "libridgeline.so")
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    from ridgeline import _library
    from ridgeline.torch import _kernels
    print(f"   ours: {_library.lib._name}, which tunes nothing, but takes what the program has tuned in this run")
    return _kernels


def our_calls(kernels, cell, tensors):
    """Returns forward and backward."""
    q, k, v, d_output = tensors
    plan = kernels.plan(q, k, v, 0.0, int(cell.causal), 0, False)
    out, lse = plan.run(q, k, v)
    backward = functools.partial(kernels.gradients, plan, d_output, q, k, v, out, lse)
    backward()
    return functools.partial(plan.run, q, k, v), backward


def cudnn_calls(cell, tensors):
    q, k, v, d_output = tensors
    ops = torch.ops.aten
    forward = functools.partial(ops._scaled_dot_product_cudnn_attention, q, k, v, None, True, 0.0, cell.causal, False)
    out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = forward()
    return forward, functools.partial(ops._scaled_dot_product_cudnn_attention_backward, d_output, q, k, v, out, lse, seed,
                                      offset, None, cum_q, cum_k, max_q, max_k, 0.0, cell.causal)


def cudnn_side(cell, tensors):
    """Returns the calls and their results."""
    calls = cudnn_calls(cell, tensors)
    return calls, results(calls)


def tensors_of(cell):
    qkv, d_output = peers.inputs(cell, gradients=False)
    return *qkv, d_output


def compile_for(kernels, cells):
    """Compiles all kernels, many at a time."""
    def meet(cell):
        our_calls(kernels, cell, tensors_of(cell))
        torch.cuda.synchronize()

    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        list(pool.map(meet, cells))
    torch.cuda.empty_cache()


MOST_APART = 0.02  # of the norm: both sides round to bf16
RESULTS = ("out", "dq", "dk", "dv")


def expect_near(cell, first, second):
    """Raises if a result is not near the other side's."""
    apart = {name: float((a.float() - b.float()).norm() / b.float().norm()) for name, a, b in zip(RESULTS, first, second)}
    wrong = [f"{name} {share:.1e}" for name, share in apart.items() if not share <= MOST_APART]  # NaN is wrong, too
    if wrong:
        raise RuntimeError(f"{cell}: results are apart by these shares of the norm: {', '.join(wrong)}")


def results(calls):
    """Returns the output, without the log-sum-exp, and the gradients of q, k and v."""
    forward, backward = calls
    return forward()[0], *backward()[:3]


def graphs_of(calls, cell):
    return [peers.captured(call, calls_of(cell)) for call in calls]


def measure(kernels, cell, rounds, comparison):
    """Returns whether both sides have figures of both directions. Raises if they disagree."""
    tensors, calls = tensors_of(cell), calls_of(cell)
    sides = {"ours": our_calls(kernels, cell, tensors)}
    theirs, their_results = peers.or_nothing(cudnn_side, cell, tensors)
    if theirs:
        expect_near(cell, results(sides["ours"]), their_results)
        sides["cudnn"] = theirs
        del their_results
    graphs = {(who, phase): graph for who, both in sides.items()
              for phase, graph in zip(PHASES, peers.or_nothing(graphs_of, both, cell, who=NAMES[who])) if graph}
    timer, order = peers.Timer(), random.Random(SEED)
    for turn in range(WARMUPS + rounds):
        for who, phase in order.sample(list(graphs), len(graphs)):
            taken = peers.sample_graph(graphs[who, phase], timer) / calls
            if turn >= WARMUPS:
                comparison.add(who, cell, phase, [taken])
    compared = len(graphs) == len(NAMES) * len(PHASES)
    del graphs
    torch.cuda.empty_cache()
    return compared


def product_rate(iterations):
    """Returns the TFLOP/s of a large product."""
    a, b = (torch.randn(PRODUCT_SIZE, PRODUCT_SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    taken = peers.time_graph(lambda: a @ b, 2, WARMUPS, iterations)
    return 2 * PRODUCT_SIZE**3 / sorted(taken)[len(taken) // 2] / 1e9


@torch.no_grad()
def run(bench):
    rounds = QUICK_ITERATIONS if bench.quick else ITERATIONS
    cells = GRID + NAMED + drawn_cells()
    kernels = our_kernels(bench.ridgeline)
    compile_for(kernels, cells)
    comparison, products = Comparison(), [product_rate(rounds)]
    compared = sum(measure(kernels, cell, rounds, comparison) for cell in cells)
    print(f"   {compared} of {len(cells)} cells have figures of both sides, whose results agree")
    products.append(product_rate(rounds))
    return judge(cells, comparison, sum(products) / len(products))


def judge(cells, comparison, product):
    print(f"   ratio to cuDNN (TFLOP/s of both), one process, launch graphs in turns; a product of {PRODUCT_SIZE} runs at "
          f"{product:.0f} TFLOP/s")
    ratios = {phase: {} for phase in PHASES}
    for cell in cells:
        line = f"   {','.join(map(str, cell.shape)):<18}{'causal' if cell.causal else 'full':<7}"
        for phase in PHASES:
            ours, theirs = (comparison.median(who, cell, phase) for who in ("ours", "cudnn"))
            rates = "/".join(f"{cell.flops(phase) / time / 1e9:.0f}" for time in (ours, theirs))
            if math.isfinite(theirs):
                ratios[phase][cell] = theirs / ours
            line += f" {phase} {ratios[phase].get(cell, math.nan):5.3f} ({rates:<9})"
        print(line)
    return Section(bars_of(ratios, comparison, product), comparison.as_json())


def bars_of(ratios, comparison, product):
    forward, backward = (ratios[phase] for phase in PHASES)

    def worst(phase, name, limit, chosen):
        found = {cell: ratio for cell, ratio in phase.items() if chosen(cell)}
        at = min(found, key=found.get, default=None)
        return at_least(f"{name}: worst, {at}", found.get(at, math.nan), limit, "{:.3f}")

    def mean(phase, name, limit, chosen):
        return at_least(f"{name}: geometric mean", geometric_mean([phase[cell] for cell in phase if chosen(cell)]), limit,
                        "{:.3f}")

    def in_grid(cell):
        return cell in GRID

    def wide_full(cell):
        return cell in GRID and cell.width == 256 and not cell.causal

    def was_drawn(cell):
        return cell not in GRID + NAMED

    bars = [mean(forward, "forward / cuDNN, 18 cells", FORWARD_MEAN, in_grid),
            worst(forward, "forward / cuDNN, d 256 full", FORWARD_WIDE_FULL, wide_full),
            worst(forward, "forward / cuDNN, other cells", FORWARD_CELL, lambda cell: in_grid(cell) and not wide_full(cell)),
            mean(backward, "backward / cuDNN, 18 cells", BACKWARD_MEAN, in_grid),
            worst(backward, "backward / cuDNN, 18 cells", BACKWARD_CELL, in_grid)]
    for phase, name in ((forward, "forward"), (backward, "backward")):
        bars.append(mean(phase, f"{name} / cuDNN, {DRAWN} drawn shapes", DRAWN_MEAN, was_drawn))
        bars.append(worst(phase, f"{name} / cuDNN, {DRAWN} drawn shapes", DRAWN_CELL, was_drawn))
    ours = sum(comparison.median("ours", LEADERBOARD, phase) for phase in PHASES)
    theirs = sum(comparison.median("cudnn", LEADERBOARD, phase) for phase in PHASES)
    bars.append(at_least(f"leaderboard shape, forward and backward: {ours:.2f} ms, cuDNN {theirs:.2f} ms; "
                         f"{LEADERBOARD_MS} ms over ours", LEADERBOARD_MS / ours, 1, "{:.3f}"))
    for width in (128, 256):
        cell = Cell("bf16", 1, MODEL_WIDTH // width, TOKENS, width)
        rate = cell.flops("forward") / comparison.median("ours", cell, "forward") / 1e9
        bars.append(at_least(f"forward, d {width}, S {TOKENS} full, share of the product's rate", rate / product, PRODUCT_SHARE))
    return bars
