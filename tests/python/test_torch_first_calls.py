"""First calls whose inputs want gradients: the backward is prepared by another thread meanwhile. On a driver that stands in for
NVIDIA's (tests/jit/fake_gpu.cc) with this machine's NVRTC; tensors are the CPU's, described to the library as a GPU's."""

import os
import subprocess
import sys

import pytest
import torch

import ridgeline
from ridgeline.torch import _kernels

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DRIVER = os.path.join(os.path.dirname(os.environ.get("RIDGELINE_LIBRARY", "")), "tests", "libfake_gpu.so")

BEGIN = """
import os, threading
import torch
import ridgeline
from ridgeline import _library
from ridgeline.torch import _kernels

_library.CPU = _library.CUDA
_kernels._compiles = lambda device: True
leaves = [torch.zeros(1, 2, 128, 64, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
d_out = torch.zeros_like(leaves[0])
prepare = {name: getattr(_library.lib, f"rl_attention_{name}_prepare") for name in ("forward", "backward")}
calls, begun = {"forward": [], "backward": []}, {"forward": threading.Event(), "backward": threading.Event()}

def replace(name, function):
    def counted(*arguments):
        calls[name].append(threading.current_thread().name)
        begun[name].set()
        return function(*arguments)
    setattr(_library.lib, f"rl_attention_{name}_prepare", counted)

for name in prepare:
    replace(name, prepare[name])

def attend():
    table = torch.zeros(2, dtype=torch.bfloat16, requires_grad=True)
    inputs = [*leaves, table]
    return ridgeline.attention(*leaves, score=lambda s, b, h, i, j: s + table[h] * (j - i)), inputs
"""


@pytest.fixture
def run(tmp_path):
    """Runs code in a process of its own, in which nothing is compiled yet; gives what it printed."""
    if not os.path.exists(DRIVER):
        pytest.skip(f"no {DRIVER}: build all targets")
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    from python_cost import stand_in

    try:
        libraries = stand_in(DRIVER)
    except SystemExit as problem:
        pytest.skip(str(problem))
    environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "RIDGELINE_CUDA_LIBRARIES": libraries.name,
                   "RIDGELINE_CACHE_DIR": "off"}  # fmt: skip

    def run(code):
        done = subprocess.run([sys.executable, "-c", BEGIN + code], env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
        return done.stdout.split()

    yield run
    libraries.cleanup()


def test_both_directions_are_prepared_at_the_same_time_and_once(run):
    assert run("""
def meets(name, other):
    def function(*arguments):
        assert begun[other].wait(20), f"{name} waits in vain for {other}"
        return prepare[name](*arguments)
    return function

replace("forward", meets("forward", "backward"))
replace("backward", meets("backward", "forward"))
for _ in range(3):
    out, inputs = attend()
    torch.autograd.grad(out, inputs, d_out)
print(*calls["forward"], *calls["backward"])
""") == ["MainThread", "ridgeline-backward"]  # fmt: skip


def test_plain_attention_does_so_too_and_other_layouts_of_the_gradient_are_served(run):
    assert run("""
for gradient in (d_out.transpose(1, 2).contiguous().transpose(1, 2), d_out):
    torch.autograd.grad(ridgeline.attention(*leaves), leaves, gradient)
print(len(calls["forward"]), *(name == "ridgeline-backward" for name in calls["backward"]))
""") == ["1", "True", "False", "False"]  # fmt: skip


def test_an_error_is_met_by_the_backward_that_needs_it(run):
    assert run("""
def fails(context, params, call):
    return prepare["backward"](None, params, call)

replace("backward", fails)
out, inputs = attend()
try:
    torch.autograd.grad(out, inputs, d_out, retain_graph=True)
except ridgeline.InvalidArgument as problem:
    print("context" in str(problem))
replace("backward", prepare["backward"])
torch.autograd.grad(out, inputs, d_out)
print(len(calls["backward"]))
""") == ["True", "3"]  # fmt: skip


def test_a_process_may_end_or_fork_while_the_backward_compiles(run):
    assert run("""
out, inputs = attend()
assert begun["backward"].wait(20)
child = os.fork()
if child == 0:
    os._exit(len(_kernels._ahead) + len(_kernels._plans))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(_kernels._ahead))
""") == ["0", "1"]  # fmt: skip


def test_nothing_is_prepared_that_nobody_wants(run):
    assert run("""
with torch.no_grad():
    attend()
ridgeline.attention(*(x.detach() for x in leaves))
torch.autograd.grad(ridgeline.attention(*leaves), leaves, d_out)  # a plan that is not new
print(len(calls["forward"]), *calls["backward"])
""") == ["2", "MainThread"]  # fmt: skip


def test_nothing_is_prepared_ahead_on_the_cpu_or_while_a_stream_is_captured(monkeypatch):
    started = []
    monkeypatch.setattr(_kernels._Ahead, "start", started.append)
    q, k, v = (torch.randn(1, 1, 7, 8, requires_grad=True) for _ in range(3))
    ridgeline.attention(q, k, v, scale=0.123).sum().backward()
    assert not started and q.grad is not None
    for captures in (True, False):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda captures=captures: captures)
        assert _kernels._compiles(torch.device("cuda")) != captures
