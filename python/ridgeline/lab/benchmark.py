"""benchmark_latency, benchmark_memory and count_cuda_kernels of lab courses."""

import functools
import sys

from .._measure import device_of, measure
from ..errors import Unsupported, WrongType

_GB = 1e9
# Kinds of kernels by parts of their names; the first match counts.
_KINDS = {
    "gemm": ("gemm", "matmul", "cutlass", "xmma", "wgmma", "nvjet", "cublas", "gemv", "dot_kernel"),
    "softmax": ("softmax",),
    "layernorm": ("layernorm", "layer_norm", "rmsnorm", "rms_norm"),
    "memory": ("memcpy", "memset", "copy", "cat", "fill", "gather", "scatter", "index", "transpose"),
    "elementwise": ("elementwise", "vectorized", "pointwise", "triton_poi", "activation", "gelu", "silu"),
}


def benchmark_latency(fn, *args, n_warmup=10, n_repeat=100, **kwargs):
    """Returns the mean milliseconds of fn(*args, **kwargs), by CUDA events on a GPU, else by the host's clock.
    ridgeline.measure returns the median and its interval."""
    return measure(functools.partial(fn, *args, **kwargs), name=getattr(fn, "__name__", "fn"), warmups=n_warmup,
                   iterations=n_repeat).mean_ms  # fmt: skip


def benchmark_memory(fn, *args, n_warmup=10, n_repeat=100, **kwargs):
    """Returns (peak, allocated) memory in GB: the most in use while fn runs, and what remains afterwards. On a GPU by
    PyTorch's allocator; on a CPU by the allocations that PyTorch's profiler sees, without earlier tensors."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise Unsupported("benchmark_memory counts PyTorch's tensors: import torch, and give it a function of tensors")
    call = functools.partial(fn, *args, **kwargs)
    on_gpu = device_of(call) == "cuda"
    for _ in range(n_warmup):
        call()
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(n_repeat):
            call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() / _GB, torch.cuda.memory_allocated() / _GB
    return _host_memory(torch, call)


def _host_memory(torch, call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiled:
        kept = call()  # noqa: F841 kept alive, so that it counts as allocated
    live = peak = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak / _GB, live / _GB


def count_cuda_kernels(prof):
    """Counts the GPU kernels of a torch.profiler.profile by kind: {"gemm": 12, ..., "total": 31}."""
    events = getattr(prof, "events", None)
    if not callable(events):
        raise WrongType(f"{type(prof).__name__} is no profile: pass what torch.profiler.profile gave")
    counts = dict.fromkeys((*_KINDS, "other", "total"), 0)
    for event in events() or ():
        if "CUDA" not in str(getattr(event, "device_type", "")):
            continue
        name = event.name.lower()
        kind = next((kind for kind, parts in _KINDS.items() if any(part in name for part in parts)), "other")
        counts[kind] += 1
        counts["total"] += 1
    return counts


@functools.lru_cache(maxsize=1)
def _cycle():
    from torch.profiler import schedule

    return schedule(wait=1, warmup=3, active=6)


def default_schedule(step):
    """A schedule for torch.profiler.profile: wait 1 step, warm up for 3, record 6."""
    return _cycle()(step)
