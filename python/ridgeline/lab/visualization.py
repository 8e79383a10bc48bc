"""Plots of lab courses with matplotlib. Each function returns its figure; `show=False` does not display it."""

from ..errors import InvalidArgument, Unsupported


def _pyplot():
    try:
        import matplotlib.pyplot as pyplot
    except ImportError:
        raise Unsupported(
            "plots need matplotlib: pip install matplotlib (Debian: apt-get install python3-matplotlib); `ridgeline report` "
            "draws without it"
        ) from None
    return pyplot


def _finish(pyplot, figure, show, save_path):
    figure.tight_layout()
    if save_path is not None:
        figure.savefig(save_path)
    if show:
        pyplot.show()
    return figure


def plot_roofline(gpu_name, peak_flops, peak_bandwidth, operations=None, *, measured=None, title=None, show=True,
                  save_path=None):  # fmt: skip
    """Plots the roof of a machine over arithmetic intensity, log-log.

    peak_flops      TFLOP/s
    peak_bandwidth  TB/s
    operations      {name: FLOPs per byte}: marked on the roof
    measured        {name: TFLOP/s} of some of them: marked at their measured rate
    """
    if not (peak_flops > 0 and peak_bandwidth > 0):
        raise InvalidArgument(f"a roof of {peak_flops} TFLOP/s and {peak_bandwidth} TB/s: expected numbers above 0")
    operations, measured = dict(operations or {}), dict(measured or {})
    for name, intensity in operations.items():
        if not intensity > 0:
            raise InvalidArgument(f"{name} has an intensity of {intensity}: expected FLOPs per byte above 0")
    if set(measured) - set(operations):
        raise InvalidArgument(f"{', '.join(set(measured) - set(operations))} has no intensity: add it to operations")
    pyplot = _pyplot()
    ridge = peak_flops / peak_bandwidth
    ends = [ridge / 100, ridge * 100, *(0.5 * x for x in operations.values()), *(2 * x for x in operations.values())]
    xs = [min(ends), ridge, max(ends)]
    figure, axes = pyplot.subplots(figsize=(8, 5))
    axes.loglog(xs, [min(peak_flops, x * peak_bandwidth) for x in xs], color="black", label="roof")
    axes.axvline(ridge, color="grey", linestyle="--", label=f"ridge point {ridge:.3g} FLOPs/byte")
    for i, (name, intensity) in enumerate(operations.items()):
        at = measured.get(name, min(peak_flops, intensity * peak_bandwidth))
        axes.plot([intensity], [at], "o" if name in measured else "^", color=f"C{i}", label=name)
    axes.set_xlabel("arithmetic intensity (FLOPs per byte)")
    axes.set_ylabel("TFLOP/s")
    axes.set_title(title or f"Roofline of {gpu_name}")
    axes.legend(fontsize="small")
    axes.grid(True, which="both", alpha=0.3)
    return _finish(pyplot, figure, show, save_path)


def plot_gemm_torch_matmul_latency(sizes, gemm_tiled_latency_ms, torch_matmul_latency_ms, *, show=True, save_path=None):
    """Plots the milliseconds of gemm_tiled and torch.matmul over the size of square matrices."""
    sizes = list(sizes)
    if not len(sizes) == len(gemm_tiled_latency_ms) == len(torch_matmul_latency_ms):
        raise InvalidArgument(
            f"{len(sizes)} sizes, {len(gemm_tiled_latency_ms)} and {len(torch_matmul_latency_ms)} latencies: expected as many"
        )
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.loglog(sizes, list(gemm_tiled_latency_ms), "o-", label="gemm_tiled")
    axes.loglog(sizes, list(torch_matmul_latency_ms), "s-", label="torch.matmul")
    axes.set_xlabel("size N of N x N x N")
    axes.set_ylabel("latency (ms)")
    axes.set_title("Latency of a matrix product")
    axes.legend()
    axes.grid(True, which="both", alpha=0.3)
    return _finish(pyplot, figure, show, save_path)


def plot_flash_attn_improvement(df, latency_cols=("sdpa_ms", "flash_ms"), memory_cols=("sdpa_mem_gb", "flash_mem_gb"),
                                seq_len_col="seq_len", *, show=True, save_path=None):  # fmt: skip
    """Plots latency and memory of standard and flash attention as grouped bars over the sequence length. `df` is a
    DataFrame, or a list of dicts with these columns."""
    rows = df.to_dict("records") if hasattr(df, "to_dict") else list(df)
    for column in (seq_len_col, *latency_cols, *memory_cols):
        if not rows or column not in rows[0]:
            known = ", ".join(map(str, rows[0])) if rows else "no rows"
            raise InvalidArgument(f"there is no column {column!r}: there is {known}")
    pyplot = _pyplot()
    figure, both = pyplot.subplots(1, 2, figsize=(11, 4))
    for axes, columns, what in ((both[0], latency_cols, "latency (ms)"), (both[1], memory_cols, "memory (GB)")):
        for i, column in enumerate(columns):
            places = [x + (i - (len(columns) - 1) / 2) * 0.8 / len(columns) for x in range(len(rows))]
            axes.bar(places, [row[column] for row in rows], 0.8 / len(columns), label=column)
        axes.set_xticks(range(len(rows)))
        axes.set_xticklabels([str(row[seq_len_col]) for row in rows])
        axes.set_xlabel("sequence length")
        axes.set_ylabel(what)
        axes.legend()
    figure.suptitle("Standard against flash attention")
    return _finish(pyplot, figure, show, save_path)
