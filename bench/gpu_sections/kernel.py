"""Small problems, dominated by launches: time per call inside a launch graph against SDPA, and host time."""
import itertools
import math
import statistics

import torch

from . import peers
from .bars import Section, at_most
from .comparison import Comparison
from .ridgeline import Cell, cell_of, samples

# Shape: the largest allowed ratio of our time to the best peer's.
SHAPES = {(1, 1, 128, 64): 1.0, (8, 4, 128, 64): 1.0, (32, 8, 128, 64): 1.0, (32, 8, 256, 64): 1.15}
DTYPES = ["fp16", "bf16"]
# Both layouts are tried, so that each peer is judged by the one that suits it better.
PEERS = [f"{backend} {layout}" for backend, layout in itertools.product(("flash", "cudnn"), ("BHSD", "BSHD"))]
CALLS = 40
WARMUPS, ITERATIONS, QUICK_ITERATIONS = 20, 60, 20
HOST_LIMIT_US = 10


def graph_samples(peer, cell, iterations):
    backend, layout = peer.split()
    qkv, _ = peers.inputs(cell, gradients=False)
    if layout == "BSHD":
        qkv = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in qkv]
    attention = peers.sdpa(False)
    with peers.only(backend), torch.no_grad():
        return peers.time_graph(lambda: attention(*qkv), CALLS, WARMUPS, iterations), []


def torch_pass(iterations, comparison):
    for dtype, shape, peer in itertools.product(DTYPES, SHAPES, PEERS):
        cell = Cell(dtype, *shape)
        comparison.add(peer, cell, "forward", peers.or_nothing(graph_samples, peer, cell, iterations)[0])


def our_pass(ridgeline, iterations, comparison):
    for record in ridgeline.rows("kernel", impl="flash", dtype=DTYPES, shape=list(SHAPES), mode=["hot", "graph"],
                                 graph_calls=CALLS, num_warmup=WARMUPS, num_iterations=iterations, no_verify=True):
        if record["settings"]["mode"] == "graph":
            comparison.add("ours", cell_of(record), "forward", samples(record, "forward"))
        else:
            comparison.add("ours", cell_of(record), "host", samples(record, "forward_host"))


def run(bench):
    iterations = QUICK_ITERATIONS if bench.quick else ITERATIONS
    comparison = Comparison()
    for who in bench.passes:
        if who == "ours":
            our_pass(bench.ridgeline, iterations, comparison)
        else:
            torch_pass(iterations, comparison)
    return judge(comparison)


def judge(comparison):
    print(f"   us per call in a graph: ours; {', '.join(PEERS)}; ours / best; host us of one call of ours")
    ratios, host = {shape: [] for shape in SHAPES}, []
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        cell = Cell(dtype, *shape)
        ours = comparison.median("ours", cell, "forward")
        best, name = comparison.best(PEERS, cell, "forward")
        ratios[shape].append(ours / best if math.isfinite(best) else math.nan)
        host.append(1e3 * comparison.median("ours", cell, "host"))
        print(f"   {dtype} {','.join(map(str, shape)):<12}{1e3 * ours:7.2f};"
              + "".join(f"{1e3 * comparison.median(peer, cell, 'forward'):7.2f}" for peer in PEERS)
              + f"; {ratios[shape][-1]:5.2f} {name}; {host[-1]:5.2f}")
    bars = [at_most(f"kernel {shape} in a graph, ours / best peer, worse dtype", worst(ratios[shape]), limit)
            for shape, limit in SHAPES.items()]
    bars.append(at_most("kernel: host us of one call, slowest", worst(host), HOST_LIMIT_US, "{:.1f}"))
    return Section(bars, {"times": comparison.as_json(), "host_us_median": statistics.median(host)})


def worst(values):
    """Returns the largest value; NaN if one is NaN."""
    return math.nan if any(math.isnan(value) for value in values) else max(values)
