"""measure(): the library's harness for Python callables; GPU work is timed by CUDA events."""

import ctypes
import os
import sys
import time

from . import _library
from ._records import Records
from ._roofs import roof_of
from .errors import InvalidArgument, WrongType

MOST_SAMPLES = 20_000  # of one measurement, as in the library
_TIME = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)


class _Callable(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("implementation", ctypes.c_char_p),
        ("device", ctypes.c_char_p),
        ("convention", ctypes.c_char_p),
        ("flops", ctypes.c_double),
        ("bytes", ctypes.c_double),
        ("size_names", ctypes.POINTER(ctypes.c_char_p)),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("size_count", ctypes.c_size_t),
        ("time_ms", _TIME),
        ("user", ctypes.c_void_p),
    ]


class Params(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("callables", ctypes.POINTER(_Callable)),
        ("callable_count", ctypes.c_size_t),
        ("study", ctypes.c_char_p),
        ("results", ctypes.c_char_p),
        ("warmups", ctypes.c_int32),
        ("iterations", ctypes.c_int32),
        ("time_budget_s", ctypes.c_double),
        ("run", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


_STATISTICS = ("median_ms", "median_low_ms", "median_high_ms", "mean_ms", "std_ms", "min_ms", "max_ms", "p95_ms", "p99_ms",
               "flops_per_s", "bytes_per_s", "ratio", "ratio_low", "ratio_high")  # fmt: skip


class Timing(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("count", ctypes.c_int64),
        *((name, ctypes.c_double) for name in _STATISTICS),
        ("samples_ms", ctypes.POINTER(ctypes.c_double)),
        ("sample_capacity", ctypes.c_size_t),
    ]


class Measured(dict):
    """A row of measure(): row["median_ms"] or row.median_ms; samples_ms holds every sample."""

    __slots__ = ("samples_ms",)

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a measured row has no {name}: it has {', '.join(self)}") from None


def measure(work, *, flops=0, bytes=0, name=None, implementation=None, sizes=None, device=None, warmups=10, iterations=100,
            time_budget_s=0, results=None, study="own", run=0, roof=None,
            dtype="fp32"):  # fmt: skip
    """Times work() as the studies do: warm-ups, samples, a median with its 95 % interval.

    work         a callable without arguments; or several as {implementation: callable}, which alternate, A B B A, so
                 that disturbances of the machine affect all of them; `ratio` is the time over that of the first
    flops, bytes of one call, by your convention: add rates and, with a roof, the share of it
    name, sizes  identify the workload: "saxpy", {"n": 1024}
    device       "cpu", or "cuda", timed by events on PyTorch's current stream; None: that of the tensor which
                 work() returns; if it returns none, "cuda" if this process uses a GPU
    time_budget_s  seconds instead of a number of iterations; ends early when the median is known to 1 %
    results      a file to which a record is appended, for `ridgeline compare` and `report`
    run          the number of this run of your program, from 1
    roof, dtype  the roof for products in this dtype: a GPU's name ("H100") or Records of ridgeline.roofline(); adds
                 roof_share and bound

    Returns a row, or a list of rows for several callables. Exceptions of work propagate.
    """
    several = isinstance(work, dict)
    callables = work if several else {implementation or "default": work}
    if not callables:
        raise InvalidArgument("there is nothing to measure: pass a callable, or a dict with some")
    for key, each in callables.items():
        if not callable(each):
            raise WrongType(f"{key} is {type(each).__name__}: pass a callable without arguments, lambda: f(x)")
    warmups, iterations, run = (_count(*pair) for pair in (("warmups", warmups), ("iterations", iterations), ("run", run)))
    budget, flops, bytes = (_number(*pair) for pair in (("time_budget_s", time_budget_s), ("flops", flops), ("bytes", bytes)))
    if name is None:
        first = next(iter(callables.values()))
        name = getattr(first, "__name__", type(first).__name__)
    bound = roof_of(roof, dtype)
    if bound is not None and not (flops and bytes):
        raise InvalidArgument("a share of the roof needs flops and bytes of one call: pass both")
    if device not in (None, "cpu", "cuda"):
        raise InvalidArgument(f"device is {device!r}: expected 'cpu' or 'cuda'")
    device = device or device_of(*callables.values())
    problem = _Problem(callables, name, device, flops, bytes, {} if sizes is None else sizes)
    params = Params(size=ctypes.sizeof(Params), callables=problem.array, callable_count=len(callables), study=_bytes(study),
                    results=None if results is None else os.fsencode(results), warmups=warmups, iterations=iterations,
                    time_budget_s=budget, run=run)  # fmt: skip
    rows = problem.run(params, MOST_SAMPLES if budget else min(iterations, MOST_SAMPLES))
    if bound is not None:
        least_ms = 1e3 * max(flops / bound.flops_per_s, bytes / bound.bytes_per_s)
        for row in rows:
            row["roof_share"] = least_ms / row["median_ms"] if row["median_ms"] else None
            row["bound"] = "compute" if flops > bound.ridge * bytes else "memory"
    return Records(rows) if several else rows[0]


class _Problem:
    """The structs of a call, and the exception that a callable raised, if any."""

    def __init__(self, callables, name, device, flops, bytes_, sizes):
        self.raised = None
        self._kept = []  # objects that the structs point to
        names = (ctypes.c_char_p * len(sizes))(*(_bytes(key) for key in sizes))
        values = (ctypes.c_int64 * len(sizes))(*(_count(key, value, None) for key, value in sizes.items()))
        self.array = (_Callable * len(callables))()
        clock = _cuda_time_ms if device == "cuda" else _host_time_ms
        for struct, (key, work) in zip(self.array, callables.items()):
            struct.name, struct.implementation, struct.device = _bytes(name), _bytes(key), _bytes(device)
            struct.flops, struct.bytes = flops, bytes_
            struct.size_names, struct.sizes, struct.size_count = names, values, len(sizes)
            struct.time_ms = self._timed(clock, work)
        self._kept += [names, values]
        self._facts = [{"name": name, "implementation": key, "device": device, **sizes} for key in callables]

    def _timed(self, clock, work):
        def time_ms(_):
            try:
                return clock(work)
            except BaseException as problem:  # exceptions must not pass through the library
                self.raised = problem
                return float("nan")

        kept = _TIME(time_ms)
        self._kept.append(kept)
        return kept

    def run(self, params, most_samples):
        timings = (Timing * len(self.array))()
        buffers = [(ctypes.c_double * most_samples)() for _ in timings]
        for timing, buffer in zip(timings, buffers):
            timing.size, timing.samples_ms, timing.sample_capacity = ctypes.sizeof(Timing), buffer, most_samples
        status = _library.lib.rl_measure(ctypes.addressof(params), ctypes.addressof(timings))
        if self.raised is not None:
            raise self.raised
        if status:
            _library.fail(status)
        rows = []
        for facts, timing, buffer in zip(self._facts, timings, buffers):
            row = Measured(facts, count=timing.count, **{name: _known(getattr(timing, name)) for name in _STATISTICS})
            row.samples_ms = list(buffer[: timing.count])
            rows.append(row)
        return rows


def _host_time_ms(work):
    begin = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - begin) / 1e6


def _cuda_time_ms(work):
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def device_of(*callables):
    """Finds the device by one call of each callable: that of the returned tensors. A callable that returns none, such
    as a backward, may have queued work on a GPU if this process uses one; events also time host work, if less
    precisely."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return "cpu"
    for work in callables:
        made = work()
        made = made[0] if isinstance(made, (tuple, list)) and made else made
        if made.is_cuda if isinstance(made, torch.Tensor) else torch.cuda.is_initialized():
            return "cuda"
    return "cpu"


def _known(value):
    return None if value != value else value


def _bytes(text):
    if not isinstance(text, str) or "\0" in text:
        raise WrongType(f"{text!r} is no text: expected a name")
    return text.encode()


def _count(name, value, most=2**31 - 1):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise WrongType(f"{name} is {value!r}: expected a whole number")
    value = value.__index__()
    if not (0 <= value <= most if most else abs(value) < 2**63):
        raise InvalidArgument(f"{name} is {value}: expected a number from 0 to {most or 2**63 - 1}")
    return value


def _number(name, value):
    try:
        value = float(value)
    except (TypeError, ValueError):
        raise WrongType(f"{name} is {value!r}: expected a number") from None
    if not 0 <= value < float("inf"):
        raise InvalidArgument(f"{name} is {value}: expected a number from 0 on")
    return value
