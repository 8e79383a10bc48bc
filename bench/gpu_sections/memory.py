"""Compares the ledger's peak memory with the driver's count, as the program reads it and as seen from outside."""
import threading
import time

import torch

from .bars import Section, at_most
from .ridgeline import cell_of

MIB = 1 << 20
ROWS = [
    {"impl": "naive", "dtype": "fp32", "batch_size": 8, "seq_len": 8192, "d_model": 64},
    {"impl": "naive", "dtype": "bf16", "batch_size": 8, "seq_len": 4096, "d_model": 128},
    {"impl": "flash", "dtype": "bf16", "batch_size": 8, "seq_len": 16384, "d_model": 128},
    {"impl": "flash", "dtype": "fp32", "batch_size": 8, "seq_len": 16384, "d_model": 64},
]
# So small that only context, code and handles take memory of the GPU.
TINY = {"batch_size": 1, "seq_len": 16, "d_model": 16}
LIMIT_PERCENT = 5
HOLD_S = 0.3  # long enough to be observed from outside


class Watch:
    """Observes the peak memory in use on the whole GPU, less that at its start."""

    def __enter__(self):
        self.before = self.peak = self.in_use()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    @property
    def growth(self):
        return self.peak - self.before

    def look(self):
        while not self.stop.is_set():
            self.peak = max(self.peak, self.in_use())
            time.sleep(0.002)

    @staticmethod
    def in_use():
        free, total = torch.cuda.mem_get_info(0)
        return total - free


def measure(ridgeline, row):
    with Watch() as watch:
        records = ridgeline.rows("attention", **row, time_budget=f"{HOLD_S}s", num_warmup=1, no_verify=True)
    return records[0], watch.growth


def run(bench):
    torch.zeros(1, device="cuda")  # creates PyTorch's own context before the observation
    differences, data = [], []
    print("   MiB: peak by the ledger, growth by the driver inside the program, growth seen outside less context")
    for row in ROWS:
        context = measure(bench.ridgeline, {**row, **TINY})[1]
        record, growth = measure(bench.ridgeline, row)
        peak, driver = (record["memory"].get(name) for name in ("peak_bytes", "driver_peak_growth_bytes"))
        if not peak or driver is None:
            raise RuntimeError(f"the record of {row} has no peak: {record['status']} {record['error']}")
        outside = growth - context
        differences.append(100 * abs(driver / peak - 1))
        print(f"   {row['impl']} {row['dtype']} S={row['seq_len']} d={row['d_model']}: {peak / MIB:.1f}, "
              f"{driver / MIB:.1f} ({100 * (driver / peak - 1):+.2f} %), {outside / MIB:.1f} "
              f"({100 * (outside / peak - 1):+.2f} %), context {context / MIB:.0f}", flush=True)
        data.append({**cell_of(record)._asdict(), "implementation": row["impl"], "peak_bytes": peak,
                     "driver_peak_growth_bytes": driver, "outside_bytes": outside, "context_bytes": context})
    return Section([at_most("peak memory against the driver's count, worst row, %", max(differences), LIMIT_PERCENT)],
                   data)
