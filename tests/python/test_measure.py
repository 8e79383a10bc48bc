"""measure() is the library's harness, and verify() finds what is wrong with an attention function."""

import itertools
import json
import math
import os
import sys
import types

import numpy as np
import pytest

import ridgeline
from ridgeline import _measure


def counting_clock(monkeypatch, factors):
    """Makes time what the test says: 1, 2, 3, ... ms times the factor of each callable."""
    ticks = {name: itertools.count(1) for name in factors}
    monkeypatch.setattr(_measure, "_host_time_ms", lambda work: factors[work()] * next(ticks[work()]))
    return {name: (lambda name=name: name) for name in factors}


def test_statistics_are_those_of_the_harness(monkeypatch, tmp_path):
    work = counting_clock(monkeypatch, {"one": 1.0})["one"]
    file = tmp_path / "own.jsonl"
    row = ridgeline.measure(work, name="count", flops=2e6, bytes=1e6, sizes={"n": 5}, warmups=2, iterations=9, results=file)
    samples = np.arange(3.0, 12.0)
    assert row.samples_ms == list(samples) and row.count == 9
    assert row.median_ms == np.median(samples) and row.mean_ms == samples.mean()
    assert row.std_ms == pytest.approx(samples.std(ddof=1)) and row.p95_ms == pytest.approx(np.percentile(samples, 95))
    assert (row.median_low_ms, row.median_high_ms) == (4, 10)  # ranks 2 and 8 of nine hold the median in 96 of 100 cases
    assert row.flops_per_s == pytest.approx(2e6 / 7e-3) and row["bytes_per_s"] == pytest.approx(1e6 / 7e-3)
    record = json.loads(file.read_text())
    assert record["series"]["call"]["statistics"]["median_ms"] == 7 and record["workload"] == {"name": "count", "n": 5}
    assert "fingerprint" in record["machine"]


def test_several_take_turns(monkeypatch):
    works = counting_clock(monkeypatch, {"base": 1.0, "slow": 3.0})
    rows = ridgeline.measure(works, warmups=0, iterations=7)
    assert [row.implementation for row in rows] == ["base", "slow"]
    assert rows[0].ratio == 1 and rows[1].ratio == pytest.approx(3) and rows[1].ratio_low == pytest.approx(3)


def test_warm_ups_and_iterations_are_as_many_as_asked_for():
    calls = []
    ridgeline.measure(lambda: calls.append(1), warmups=3, iterations=7)
    assert len(calls) == 10


def test_a_time_budget_ends_the_samples(monkeypatch):
    row = ridgeline.measure(lambda: None, warmups=1, time_budget_s=0.02)
    assert 6 <= row.count <= _measure.MOST_SAMPLES == 20_000


def test_the_share_of_a_roof_is_least_time_over_median(monkeypatch):
    work = counting_clock(monkeypatch, {"one": 1.0})["one"]
    row = ridgeline.measure(work, flops=312e9, bytes=1e6, warmups=0, iterations=1, roof="A100", dtype="bf16")
    assert row.bound == "compute" and row.roof_share == pytest.approx(1.0)  # 1 ms at 312 TFLOP/s
    ceilings = [{"ceiling": "compute", "dtype": "fp32", "gflops_per_s": 100.0, "status": "ok"},
                {"ceiling": "memory", "level": "memory", "gb_per_s": 10.0, "status": "ok"},
                {"ceiling": "memory", "level": "L1", "gb_per_s": 99.0, "status": "ok"}]  # fmt: skip
    row = ridgeline.measure(work, flops=1e6, bytes=1e7, warmups=0, iterations=1, roof=ceilings)
    assert row.bound == "memory" and row.roof_share == pytest.approx(0.5)  # 1 ms of the 2 ms that it took


def test_what_a_callable_raises_passes_through():
    class Own(BaseException):
        pass

    def fail():
        raise Own("mine")

    with pytest.raises(Own, match="mine"):
        ridgeline.measure(fail)
    assert ridgeline.measure(lambda: None, iterations=1).count == 1  # and nothing is left behind


@pytest.mark.parametrize(
    "arguments, kind, part",
    [
        ({"work": 3}, TypeError, "pass a callable"),
        ({"work": {}}, ValueError, "nothing to measure"),
        ({"iterations": 0}, ValueError, "number of iterations is 0"),
        ({"iterations": 1.5}, TypeError, "whole number"),
        ({"iterations": 10**9}, ValueError, "20000"),
        ({"warmups": -1}, ValueError, "warmups is -1"),
        ({"flops": "many"}, TypeError, "flops is 'many'"),
        ({"bytes": math.nan}, ValueError, "bytes is nan"),
        ({"device": "tpu"}, ValueError, "device is 'tpu'"),
        ({"sizes": {"n": "x"}}, TypeError, "n is 'x'"),
        ({"sizes": {"name": 3}}, ValueError, "a size is called 'name'"),
        ({"sizes": {3: 1}}, TypeError, "3 is no text"),
        ({"name": "a\0b"}, TypeError, "is no text"),
        ({"roof": "A100"}, ValueError, "needs flops and bytes"),
        ({"roof": "Z80", "flops": 1, "bytes": 1}, ValueError, "Z80"),
        ({"roof": 3, "flops": 1, "bytes": 1}, TypeError, "roof is int"),
        ({"roof": [], "flops": 1, "bytes": 1}, ValueError, "no ceilings"),
        ({"results": "/proc/nowhere/own.jsonl"}, ridgeline.Error, "nowhere"),
    ],
)
def test_bad_input_is_an_exception_with_a_text(arguments, kind, part):
    with pytest.raises(kind, match=part):
        ridgeline.measure(**{"work": lambda: None, "warmups": 0, "iterations": 2, **arguments})


@pytest.mark.parametrize(
    "made, initialized, device",
    [("gpu", True, "cuda"), ("cpu", True, "cpu"), (("gpu", 1), True, "cuda"), (None, True, "cuda"), (None, False, "cpu"), ([], False, "cpu")],
)  # fmt: skip
def test_the_clock_is_that_of_the_device_that_works(monkeypatch, made, initialized, device):
    class Tensor:
        def __init__(self, where):
            self.is_cuda = where == "gpu"

    cuda = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: initialized)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=Tensor, cuda=cuda))
    tensor = (lambda x: Tensor(x) if isinstance(x, str) else x)  # noqa: E731
    assert _measure.device_of(lambda: tuple(map(tensor, made)) if isinstance(made, tuple) else tensor(made)) == device


def test_a_forked_process_measures():
    child = os.fork()
    if child == 0:
        os._exit(0 if ridgeline.measure(lambda: None, iterations=7).count == 7 else 1)
    assert os.waitpid(child, 0)[1] == 0


def plain(q, k, v, causal=False):
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def test_verify_passes_what_is_right_and_times_it_beside_ours():
    found = ridgeline.verify(plain, arrays="numpy", problems=12, benchmark=(1, 2, 32, 16), iterations=6)
    assert found.passed and len(found) == 12 and {row["dtype"] for row in found} == {"float32"}
    assert any(row["causal"] for row in found) and not all(row["causal"] for row in found)
    assert [row["implementation"] for row in found.timings] == ["ridgeline", "plain"]
    assert "12 problems: all right" in found.notes[0]


@pytest.mark.parametrize(
    "wrong, part",
    [
        (lambda q, k, v, causal: plain(q, k, v), "causal True"),  # forgets the mask
        (lambda q, k, v, causal: plain(q * 1.01, k, v, causal), "is off by"),
        (lambda q, k, v, causal: plain(q, k, v, causal) + np.float32(5e-5), "is off by"),  # beyond what fp32 rounds
        (lambda q, k, v, causal: plain(q, k, v, causal)[..., :1], "is off by inf"),
        (lambda q, k, v, causal: plain(q, k, v, causal) * np.nan, "is off by nan"),
        (lambda q, k, v, causal: plain(q, k, v, causal) if q.shape[-1] != 17 else 1 / 0, "ZeroDivisionError"),
    ],
)
def test_verify_finds_what_is_wrong(wrong, part):
    found = ridgeline.verify(wrong, arrays="numpy", problems=12, benchmark=None)
    assert not found.passed and any(part in note for note in found.notes), found.notes


def test_verify_asks_a_function_that_knows_no_mask_for_none():
    found = ridgeline.verify(lambda q, k, v: plain(q, k, v), arrays="numpy", problems=6, benchmark=None)
    assert found.passed and not any(row["causal"] for row in found)


@pytest.mark.parametrize(
    "arguments, part",
    [
        ({"function": 3}, "is no function"),
        ({"function": lambda q: q}, "takes neither"),
        ({"problems": 0}, "problems is 0"),
        ({"dtypes": ["int8"]}, "dtype 'int8'"),
        ({"arrays": "jax"}, "arrays is 'jax'"),
        ({"dtypes": ["float32", "bfloat16"]}, "numpy has no dtype 'bfloat16'"),
    ],
)
def test_verify_refuses_what_it_cannot_check(arguments, part):
    with pytest.raises(ridgeline.Error, match=part):
        ridgeline.verify(**{"function": plain, "arrays": "numpy", "benchmark": None, **arguments})
