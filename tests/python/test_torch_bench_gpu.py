"""The logic of bench/gpu.py that needs no GPU: what is compared, counted and reported of sides that fail."""

import ctypes
import functools
import importlib.util
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("RIDGELINE_PROGRAM", str(ROOT / "build/release/ridgeline"))


@pytest.fixture
def sections(monkeypatch):
    """The sections clock, cudnn and peers, with what an older PyTorch lacks."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    if not hasattr(torch, "OutOfMemoryError"):
        monkeypatch.setattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError, raising=False)
    if importlib.util.find_spec("torch.nn.attention") is None:
        names = dict.fromkeys(("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION"))
        stub = types.ModuleType("torch.nn.attention")
        stub.SDPBackend, stub.sdpa_kernel = types.SimpleNamespace(**names), None
        monkeypatch.setitem(sys.modules, "torch.nn.attention", stub)
    from gpu_sections import clock, cudnn, peers

    yield types.SimpleNamespace(clock=clock, cudnn=cudnn, peers=peers)
    for name in [name for name in sys.modules if name.startswith("gpu_sections")]:
        del sys.modules[name]


def side(gradients=(1.0, 1.0, 1.0), fails=()):
    """Calls of one side: the output, the gradients, and names of the calls that cannot be captured."""
    forward = functools.partial(lambda: (torch.ones(4), None))
    backward = functools.partial(lambda: tuple(torch.full((4,), x) for x in gradients))
    forward.cannot, backward.cannot = "forward" in fails, "backward" in fails
    return forward, backward


@pytest.fixture
def measure(sections, monkeypatch):
    """measure(ours, theirs) gives whether both have figures, and the comparison."""
    from gpu_sections.comparison import Comparison

    cudnn, peers = sections.cudnn, sections.peers
    cell = cudnn.Cell("bf16", 1, 2, 64, 64)

    def captured(call, calls):
        if call.cannot:
            raise RuntimeError("operation not permitted when stream is capturing")
        return call

    monkeypatch.setattr(cudnn, "tensors_of", lambda cell: ())
    monkeypatch.setattr(peers, "captured", captured)
    monkeypatch.setattr(peers, "sample_graph", lambda graph, timer: 1.0)
    monkeypatch.setattr(peers, "Timer", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)

    def measure(ours, theirs):
        monkeypatch.setattr(cudnn, "our_calls", lambda kernels, cell, tensors: ours)
        monkeypatch.setattr(cudnn, "cudnn_calls", lambda cell, tensors: theirs)
        comparison = Comparison()
        return cudnn.measure(None, cell, 3, comparison), {key[0::2]: key for key in comparison.samples}

    return measure


@pytest.mark.parametrize("wrong", range(3))
@pytest.mark.parametrize("value", [math.nan, 1.1])
def test_each_gradient_is_compared_with_cudnns(measure, wrong, value):
    gradients = [1.0, 1.0, 1.0]
    gradients[wrong] = value
    with pytest.raises(RuntimeError, match=("dq", "dk", "dv")[wrong]):
        measure(side(gradients), side())
    with pytest.raises(RuntimeError, match=("dq", "dk", "dv")[wrong]):
        measure(side(), side(gradients))


def test_cells_count_as_compared_if_both_sides_have_both_directions(measure, capsys):
    assert measure(side(), side())[0]
    assert not capsys.readouterr().out
    compared, samples = measure(side(), side(fails=("backward",)))
    assert not compared and set(samples) == {("ours", "forward"), ("ours", "backward")}
    assert "PyTorch bf16 (1,2,64,64): operation not permitted" in capsys.readouterr().out


def test_a_capture_of_ours_that_fails_is_not_pytorchs(measure, capsys):
    compared, samples = measure(side(fails=("forward",)), side())
    assert not compared and set(samples) == {("cudnn", "forward"), ("cudnn", "backward")}
    assert "ridgeline bf16 (1,2,64,64): operation not permitted" in capsys.readouterr().out


def test_the_build_is_known_without_a_record(sections, tmp_path, monkeypatch):
    for file in (pathlib.Path(PROGRAM), pathlib.Path(PROGRAM).parent / "libridgeline.so"):
        if not file.exists():
            pytest.skip(f"no {file}")
    from gpu_sections.ridgeline import Ridgeline

    ridgeline = Ridgeline(binary=pathlib.Path(PROGRAM), cache=tmp_path)
    ridgeline.read_build()
    before = ridgeline.build
    assert re.fullmatch(r"\d+\.\d+\.\d+ \S+", before)
    for name in ("RIDGELINE_CACHE_DIR", "RIDGELINE_LIBRARY"):  # which are set
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setattr(sys, "path", list(sys.path))
    sections.cudnn.our_kernels(ridgeline)
    assert ridgeline.build == before


def test_parameters_of_the_forward_kernel_lie_where_the_compiler_puts_them(sections, tmp_path):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    header = ROOT / "src/kernels/cuda/params.h"
    params = sections.clock.forward_params(header.read_text())[1]
    names = [name for name, _ in params._fields_]
    (tmp_path / "offsets.cc").write_text(
        f'#include "{header}"\n#include <cstddef>\n#include <cstdio>\nint main() {{\n'
        + "".join(f'std::printf("%zu ", offsetof(ridgeline::FlashForwardParams, {name}));\n' for name in names)
        + 'std::printf("%zu", sizeof(ridgeline::FlashForwardParams));\n}\n'
    )
    subprocess.run([compiler, "-std=c++20", tmp_path / "offsets.cc", "-o", tmp_path / "offsets"], check=True)
    *offsets, size = map(int, subprocess.run([tmp_path / "offsets"], capture_output=True, check=True).stdout.split())
    assert offsets == [getattr(params, name).offset for name in names]
    assert size <= ctypes.sizeof(params) + sections.clock.TENSOR_MAP_ALIGNMENT
