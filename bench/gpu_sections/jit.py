"""Time from call to result in a running process, for a kernel that is compiled and for one in the disk cache."""
import pathlib
import tempfile

from .bars import Section, at_most, not_run
from .ridgeline import cell_of

FIRST = (1, 1, 128, 16)  # its row starts the GPU, the compiler and the libraries
# (with backward, dtypes, shapes that need separate kernels). A backward is several kernels, so it has no bar.
CASES = [
    (False, ["bf16", "fp32"], [(1, 1, 128, width) for width in (96, 128, 256)]),
    (True, ["bf16"], [(1, 1, 128, 128)]),
]
FRESH_LIMIT_S, CACHED_LIMIT_MS = 3, 50
CACHED_RUNS = 3


def first_runs(ridgeline, cache, dtypes, shapes, backward):
    """Returns the seconds of the first call of each row but FIRST; empty if the records do not contain them."""
    records = ridgeline.rows("kernel", cache=cache, impl="flash", dtype=dtypes, shape=[FIRST, *shapes], mode="hot",
                             backward=backward, calls_per_sample=1, num_warmup=0, num_iterations=1, no_verify=True)
    return {cell_of(record): record["protocol"]["first_run_s"] for record in records
            if cell_of(record).shape != FIRST and "first_run_s" in record["protocol"]}


def run(bench):
    bars, data = [], []
    for backward, dtypes, shapes in CASES:
        what = "forward and backward" if backward else "forward"
        with tempfile.TemporaryDirectory(prefix="ridgeline-cache-") as cache:
            fresh, *cached = (first_runs(bench.ridgeline, pathlib.Path(cache), dtypes, shapes, backward)
                              for _ in range(1 + (1 if bench.quick else CACHED_RUNS)))
        if not fresh:
            return Section([not_run("a kernel never seen before", "the records have no protocol.first_run_s")])
        slowest = {cell: max(each[cell] for each in cached) for cell in fresh}
        for cell in fresh:
            print(f"   {what}, {cell}: never seen {fresh[cell]:6.3f} s, from the disk {1e3 * slowest[cell]:6.1f} ms")
            data.append({"what": what, **cell._asdict(), "fresh_s": fresh[cell], "cached_s": slowest[cell]})
        if not backward:
            bars = [at_most("a kernel never seen before: slowest, s", max(fresh.values()), FRESH_LIMIT_S),
                    at_most("a kernel from the disk cache: slowest, ms", 1e3 * max(slowest.values()),
                            CACHED_LIMIT_MS, "{:.1f}")]
    return Section(bars, data)
