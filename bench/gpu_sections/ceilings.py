"""Measured ceilings of the GPU against PyTorch: large products per dtype, and a copy of memory."""
import math
import statistics
import time

import torch

from .bars import Section, at_most
from .peers import DTYPES, Timer

LIMIT_PERCENT = 3
SIZES = [4096, 8192]
COMPUTE = ["fp32", "tf32", "bf16", "fp16"]
COPY_BYTES = 1 << 30
# Both sides run under load until the clocks have settled, then take the fastest of a second's samples.
SETTLE_S, MEASURE_S, QUICK_MEASURE_S = 3, 1, 0.4
SAMPLE_MS = 2


def best_seconds(work, seconds):
    """Returns the seconds of the fastest sample after the clocks settled; short work runs several times per sample."""
    timer = Timer()
    work()
    calls = max(1, math.ceil(SAMPLE_MS / max(1e-3, timer(work)[0])))

    def sample():
        return timer(lambda: [work() for _ in range(calls)])[0] / calls

    start = time.monotonic()
    while time.monotonic() - start < SETTLE_S:
        sample()
    start, taken = time.monotonic(), []
    while time.monotonic() - start < seconds:
        taken.append(sample())
    return min(taken) / 1e3, statistics.median(taken) / 1e3


def torch_product(dtype, seconds):
    """Returns the FLOP/s of the best size."""
    torch.manual_seed(42)
    rates = []
    for size in SIZES:
        a, b = (torch.randn(size, size, device="cuda").to(DTYPES.get(dtype, torch.float32)) for _ in range(2))
        out = torch.empty_like(a)
        torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
        try:
            rates.append(2 * size**3 / best_seconds(lambda: torch.matmul(a, b, out=out), seconds)[0])
        finally:
            torch.set_float32_matmul_precision("highest")
    return max(rates)


def torch_copy(seconds):
    """Returns bytes read and written per second."""
    a = torch.randn(COPY_BYTES // 4, device="cuda")
    b = torch.empty_like(a)
    return 2 * COPY_BYTES / best_seconds(lambda: b.copy_(a), seconds)[0]


def our_ceilings(bench, seconds):
    """Returns the best library product per dtype and the best memory copy, from the records of `ridgeline roofline`."""
    products, copies = {}, []
    for record in bench.ridgeline.rows("roofline", dtype=COMPUTE, settle_time=f"{SETTLE_S}s",
                                       time_budget=f"{seconds}s", no_plot=True):
        if record["status"] != "ok":
            continue
        probe = record["metrics"].get("probe", {})
        if record["implementation"] == "library":
            dtype = record["workload"]["dtype"]
            products[dtype] = max(products.get(dtype, 0), probe["flops_per_s"])
        elif record["implementation"].startswith("copy") and "bytes_per_s" in probe:
            copies.append(probe["bytes_per_s"])
    return products, max(copies, default=math.nan)


def run(bench):
    seconds = QUICK_MEASURE_S if bench.quick else MEASURE_S
    ours, theirs = {}, {}
    for who in bench.passes:
        if who == "ours":
            products, copy = our_ceilings(bench, seconds)
            found = {**products, "copy": copy}
        else:
            found = {dtype: torch_product(dtype, seconds) for dtype in COMPUTE}
            found["copy"] = torch_copy(seconds)
        kept = ours if who == "ours" else theirs
        for name, rate in found.items():
            kept[name] = max(kept.get(name, 0), rate)
    return judge(ours, theirs)


def judge(ours, theirs):
    bars = []
    for name in [*COMPUTE, "copy"]:
        mine, other = ours.get(name, math.nan), theirs[name]
        scale, unit = (1e9, "GB/s") if name == "copy" else (1e12, "TFLOP/s")
        print(f"   {name}: ours {mine / scale:.1f}, PyTorch {other / scale:.1f} {unit} ({100 * (mine / other - 1):+.2f} %)")
        # A ceiling may be higher than PyTorch's figure, but not lower.
        bars.append(at_most(f"ceilings: {name}, % below PyTorch", 100 * (1 - mine / other), LIMIT_PERCENT))
    return Section(bars, {"ours": ours, "torch": theirs})
