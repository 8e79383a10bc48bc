"""PyTorch's attention on the GPU, timed as ridgeline times its own."""
import contextlib
import math
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from .ridgeline import Cell

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SDPA = {"flash": (SDPBackend.FLASH_ATTENTION, "Flash"),
        "cudnn": (SDPBackend.CUDNN_ATTENTION, "Cudnn"),
        "efficient": (SDPBackend.EFFICIENT_ATTENTION, "Efficient")}
# The GPU idles while ridgeline makes the inputs of a row; it does so for PyTorch as well.
REST_S = 0.1
# An idle GPU waits for the next launch. Before a sample shorter than this it is kept busy, as in `ridgeline kernel`.
LEAD_IN_BELOW_MS = 2

torch.set_float32_matmul_precision("highest")  # fp32 must not use TF32


def eager(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1])), -1) @ v


def inputs(cell, with_heads=True, gradients=True):
    """Returns q, k, v and the gradient of the output."""
    torch.manual_seed(42)
    shape = cell.shape if with_heads else (cell.batch * cell.heads, cell.length, cell.width)
    *qkv, d_output = (torch.randn(shape, device="cuda").to(DTYPES[cell.dtype]) for _ in range(4))
    return [tensor.requires_grad_(gradients) for tensor in qkv], d_output


@contextlib.contextmanager
def only(backend):
    """A context in which SDPA runs this backend or raises."""
    with sdpa_kernel([SDPA[backend][0]]):
        yield


def sdpa(causal):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def require_backend(output, backend):
    ran = output.grad_fn.name()
    if SDPA[backend][1] not in ran:
        raise RuntimeError(f"SDPA was to run {backend}, and ran {ran}")


class Timer:
    """Times work by CUDA events; waits for its end."""

    def __init__(self):
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def __call__(self, work):
        self.begin.record()
        result = work()
        self.end.record()
        self.end.synchronize()
        return self.begin.elapsed_time(self.end), result


def time_stages(attention, qkv, d_output, warmups, iterations):
    """Like `ridgeline attention`: forward, then backward, each launched on an idle GPU."""
    timer, forward, backward = Timer(), [], []
    time.sleep(REST_S)
    for _ in range(warmups + iterations):
        forward_ms, output = timer(lambda: attention(*qkv))
        backward_ms = timer(lambda: torch.autograd.grad(output, qkv, d_output))[0]
        del output  # frees its graph before the next forward
        forward.append(forward_ms)
        backward.append(backward_ms)
    return forward[warmups:], backward[warmups:]


def time_calls(attention, qkv, d_output, warmups, iterations):
    """Like `ridgeline kernel`: forward and backward, each launched while the GPU is still busy."""
    timer, forward, backward = Timer(), [], []
    time.sleep(REST_S)
    forward_ms = backward_ms = 0
    for _ in range(warmups + iterations):
        if forward_ms < LEAD_IN_BELOW_MS:
            attention(*qkv)
        forward_ms, output = timer(lambda: attention(*qkv))
        if backward_ms < LEAD_IN_BELOW_MS:
            attention(*qkv)
        backward_ms = timer(lambda: torch.autograd.grad(output, qkv, d_output))[0]
        del output
        forward.append(forward_ms)
        backward.append(backward_ms)
    return forward[warmups:], backward[warmups:]


def captured(call, calls):
    """Returns a launch graph of many calls."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(calls):
            call()
    return graph


def sample_graph(graph, timer):
    """Returns the milliseconds of a replay that follows one of the same graph."""
    graph.replay()
    return timer(graph.replay)[0]


def time_graph(call, calls, warmups, iterations):
    """Returns the milliseconds per call inside a launch graph of many calls."""
    graph, timer = captured(call, calls), Timer()
    return [sample_graph(graph, timer) / calls for _ in range(warmups + iterations)][warmups:]


def or_nothing(measure, *arguments, who="PyTorch"):
    """Returns the samples of forward and backward; none if memory is exhausted or there is no kernel."""
    try:
        return measure(*arguments)
    except torch.OutOfMemoryError:
        why = "out of memory"
    except RuntimeError as error:
        why = str(error).splitlines()[0][:100]
    what = [str(each) for each in arguments if isinstance(each, (str, Cell))]
    print(f"   {who} {' '.join(what)}: {why}", flush=True)
    return [], []
