"""Calls on several streams of one GPU: threads that share cudaStreamPerThread, launch graphs whose workspace a later call
outgrew, and graphs beside eager calls. Forward tiles are drawn from a counter, and every result has the bits of the first
run. Needs a GPU, but no PyTorch."""

import ctypes
import functools
import threading

import numpy as np
import pytest

from ridgeline import _library
from ridgeline._calls import Call, Options

HEADS = 300  # as many as leave several tiles to each multiprocessor
BF16, FP32 = _library.BF16, _library.FP32
PER_THREAD = 2  # the handle of cudaStreamPerThread
RELAXED = 2  # captures do not restrict other threads

try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as problem:
    pytest.skip(f"no GPU: {problem}", allow_module_level=True)
if result := cuda.cuInit(0):
    pytest.skip(f"no GPU: cuInit gives {result}", allow_module_level=True)


def check(function, *arguments):
    result = getattr(cuda, function)(*arguments)
    assert result == 0, f"{function}: CUDA error {result}"


def made(function, *arguments):
    value = ctypes.c_void_p()
    check(function, ctypes.byref(value), *arguments)
    return value


PRIMARY = made("cuDevicePrimaryCtxRetain", 0)


class Array:
    """GPU memory of a contiguous tensor; all bits are set until it is written."""

    def __init__(self, shape, dtype, values=None):
        self.bytes = int(np.prod(shape)) * (2 if dtype == BF16 else 4)
        self.memory = made("cuMemAlloc_v2", ctypes.c_size_t(self.bytes))
        self.address = self.memory.value
        self.layout = shape, tuple(int(np.prod(shape[i + 1:])) for i in range(len(shape))), dtype
        self.put(np.full(self.bytes, 0xFF, np.uint8) if values is None else values)

    def __del__(self):
        cuda.cuMemFree_v2(self.memory)

    def put(self, values):
        check("cuMemcpyHtoD_v2", self.memory, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(self.bytes))

    def get(self):
        host = np.empty(self.bytes, np.uint8)
        check("cuMemcpyDtoH_v2", host.ctypes.data_as(ctypes.c_void_p), self.memory, ctypes.c_size_t(self.bytes))
        return host


@functools.lru_cache(16)
def random_bf16(shape, seed):
    numbers = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return (numbers.view(np.uint32) >> 16).astype(np.uint16).reshape(-1).view(np.uint8)


class Problem:
    """A causal forward, and a deterministic backward. Problems of equal sizes have equal inputs."""

    def __init__(self, heads, length, width, window):
        shape = 1, heads, length, width
        q, k, v, d_out = (Array(shape, BF16, random_bf16(shape, seed)) for seed in range(4))
        out, lse, *gradients = (Array(shape[:-1], FP32) if i == 1 else Array(shape, BF16) for i in range(5))
        self.results = [out, lse, *gradients]
        options = Options(causal=1, window=window, deterministic=True)
        context = _library.context_for(_library.CUDA, 0)
        forward = [q, k, v, out, lse]
        self.arrays = [forward, [*forward, d_out, *gradients]]
        self.calls = []
        for arrays, is_backward in zip(self.arrays, (False, True)):
            addresses = [array.address for array in arrays]
            call = Call((_library.CUDA, 0), context, [array.layout for array in arrays], options, addresses, is_backward)
            self.calls.append((call, addresses))

    def run(self, stream):
        for call, addresses in self.calls:
            call.run(addresses, stream.value)

    def bits(self):
        check("cuCtxSynchronize")
        return [array.get() for array in self.results]

    def poison(self):
        for array in self.results:
            array.put(np.full(array.bytes, 0xFF, np.uint8))

    def expect(self, first):
        for name, one, other in zip(("out", "lse", "dq", "dk", "dv"), first, self.bits()):
            assert np.array_equal(one, other), f"{name} differs in {np.count_nonzero(one != other)} bytes"


def new_stream():
    return made("cuStreamCreateWithPriority", 1, 0)


def captured(problem, stream):
    check("cuStreamBeginCapture_v2", stream, RELAXED)
    problem.run(stream)
    graph = ctypes.c_void_p()
    check("cuStreamEndCapture", stream, ctypes.byref(graph))
    return made("cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))


def replay(graph, stream, times):
    for _ in range(times):
        check("cuGraphLaunch", graph, stream)


@pytest.fixture(params=[(380, 128, 0), (380, 80, 100), (1500, 64, 0)], ids=lambda sizes: f"width {sizes[1]}")
def sizes(request):
    check("cuCtxSetCurrent", PRIMARY)
    return request.param


def first_bits(problem, stream):
    problem.run(stream)
    first = problem.bits()
    assert all(len(np.unique(each[:64])) > 8 for each in first), "nothing was computed"
    return first


def test_runs_repeat_their_bits(sizes):
    problem, stream = Problem(HEADS, *sizes), new_stream()
    first = first_bits(problem, stream)
    for _ in range(5):
        problem.poison()
        problem.run(stream)
        problem.expect(first)


def test_threads_on_the_handle_of_their_own_streams_draw_apart(sizes):
    first = first_bits(Problem(HEADS, *sizes), new_stream())
    problems, failures = [Problem(HEADS, *sizes) for _ in range(4)], []
    per_thread = ctypes.c_void_p(PER_THREAD)

    def work(problem):
        try:
            check("cuCtxSetCurrent", PRIMARY)
            for _ in range(20):
                problem.run(per_thread)
            check("cuStreamSynchronize", per_thread)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(problem,)) for problem in problems]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    for problem in problems:
        problem.expect(first)


def test_a_graph_keeps_its_workspace_when_a_later_call_outgrows_it(sizes):
    mine, other, larger = Problem(HEADS, *sizes), Problem(HEADS, *sizes), Problem(2 * HEADS, *sizes)
    stream, beside = new_stream(), new_stream()
    first = first_bits(mine, stream)
    graph = captured(mine, stream)
    larger_first = first_bits(larger, stream)
    other.run(beside)
    for problem in (mine, other, larger):
        problem.poison()
    for _ in range(10):
        replay(graph, stream, 2)
        other.run(beside)
        larger.run(stream)
    mine.expect(first)
    other.expect(first)
    larger.expect(larger_first)


def test_two_graphs_run_beside_each_other(sizes):
    problems, streams = [Problem(HEADS, *sizes) for _ in range(2)], [new_stream() for _ in range(2)]
    first = first_bits(problems[0], streams[0])
    problems[1].run(streams[1])
    graphs = [captured(*each) for each in zip(problems, streams)]
    for problem in problems:
        problem.poison()
    for _ in range(10):
        for graph, stream in zip(graphs, streams):
            replay(graph, stream, 3)
    for problem in problems:
        problem.expect(first)
