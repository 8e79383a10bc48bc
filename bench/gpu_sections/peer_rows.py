"""Peers through ridgeline: each runs the named code, and is as fast as by PyTorch's own events in this process."""
import os
import statistics
import sys

from . import peers
from .bars import Section, at_least, at_most
from .ridgeline import Cell, samples

CELL = Cell("bf16", 4, 16, 2048, 64)
PEERS = ["torch.naive", "torch.compile", "torch.sdpa", "torch.sdpa.flash", "torch.sdpa.cudnn",
         "torch.sdpa.efficient", "torch.sdpa.math", "torch.flex"]
LIMIT_PERCENT = 5
WARMUPS, ITERATIONS, QUICK_ITERATIONS = 10, 50, 20


def peer_records(bench, iterations):
    os.environ["RIDGELINE_PYTHON"] = sys.executable
    records = bench.ridgeline.rows("attention", impl=["flash", *PEERS], batch_size=CELL.batch, heads=CELL.heads,
                                   d_model=CELL.width, seq_len=CELL.length, dtype=CELL.dtype, num_warmup=WARMUPS,
                                   num_iterations=iterations)
    return {record["implementation"]: record for record in records}


def run(bench):
    iterations = QUICK_ITERATIONS if bench.quick else ITERATIONS
    records = peer_records(bench, iterations)
    for name in PEERS:
        record = records[name]
        ran = record.get("metrics", {}).get("peer", {}).get("ran")
        print(f"   {name}: {record['status']} {record['error'][:100]} ran: {ran}")
    differences = []
    for backend in ("flash", "cudnn"):
        qkv, d_output = peers.inputs(CELL)
        with peers.only(backend):
            here = peers.time_stages(peers.sdpa(CELL.causal), qkv, d_output, WARMUPS, iterations)
        del qkv, d_output
        for phase, direct in zip(("forward", "backward"), here):
            through = samples(records[f"torch.sdpa.{backend}"], phase)
            if through:
                differences.append(100 * abs(statistics.median(through) / statistics.median(direct) - 1))
                print(f"   {backend} {phase}: {statistics.median(through):.4f} ms through ridgeline, "
                      f"{statistics.median(direct):.4f} ms here")
    return Section([at_least("peers: rows measured and right", sum(records[p]["status"] == "ok" for p in PEERS),
                             len(PEERS), "{:.0f}"),
                    at_most("peers: times through ridgeline and in process, worst %",
                            max(differences, default=float("nan")), LIMIT_PERCENT)],
                   {name: record["error"] for name, record in records.items()})
