"""The op behind attention(): opcheck, torch.compile in one graph, tensors without memory."""

import math
import os
import subprocess
import sys
import warnings

import pytest
import torch
from support import DEVICES, errors

import ridgeline
import ridgeline.torch

if not hasattr(torch.library, "opcheck"):
    pytest.skip(f"PyTorch {torch.__version__} is older than 2.4 and has no ops with fake kernels", allow_module_level=True)


def inputs(device="cpu", grad=True, heads=2):
    torch.manual_seed(0)
    return [torch.randn(2, heads, 9, 16, device=device, requires_grad=grad) for _ in range(3)]


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck_finds_nothing(device):
    q, k, v = inputs(device)
    torch.library.opcheck(torch.ops.ridgeline.attention.default, (q, k, v, 0.0, 1, 0, False))
    strided = [x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in (q, k, v)]
    torch.library.opcheck(torch.ops.ridgeline.attention.default, (*strided, 0.5, 2, 3, True))
    q, k, v = (x.detach() for x in (q, k, v))
    out, lse = ridgeline.attention(q, k, v, return_lse=True)
    torch.library.opcheck(torch.ops.ridgeline.attention_backward.default,
                          (torch.randn_like(out), q, k, v, out, lse, 0.0, 0, 0, False))  # fmt: skip


class Block(torch.nn.Module):
    """A layer of a small GPT."""

    def __init__(self, width=32, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = ridgeline.attention(q, k, v, causal=True)
        return x + self.out(attended.transpose(1, 2).reshape(batch, length, width))


@pytest.mark.parametrize("device", DEVICES)
def test_a_model_is_compiled_in_one_graph_with_the_same_gradients(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(Block(), Block()).to(device)
    x = torch.randn(2, 12, 32, device=device)
    expected = model(x)
    gradients = torch.autograd.grad(expected.square().sum(), list(model.parameters()))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    out = compiled(x)
    assert errors(out, expected) < 1e-5
    for a, b in zip(torch.autograd.grad(out.square().sum(), list(model.parameters())), gradients):
        assert errors(a, b) < 1e-3
    torch._dynamo.reset()
    explained = torch._dynamo.explain(model)(x)
    assert explained.graph_break_count == 0


def test_a_length_that_changes_is_compiled_once_more_at_most():
    torch.manual_seed(0)
    model = Block()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for length in (5, 9, 17):
        x = torch.randn(1, length, 32)
        assert errors(compiled(x), model(x)) < 1e-5


def test_tensors_without_memory_get_shapes():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        q = torch.empty(2, 9, 4, 16).transpose(1, 2)
        out, lse = ridgeline.attention(q, q, q, return_lse=True)
    assert out.shape == q.shape and out.stride() == q.stride()
    assert lse.shape == (2, 4, 9) and lse.dtype == torch.float32


def test_transforms_of_torch_func_are_refused_with_a_way_out():
    q, k, v = inputs(grad=False)
    with pytest.raises(ridgeline.Unsupported, match="torch.autograd"):
        torch.func.grad(lambda q: ridgeline.attention(q, k, v).sum())(q)
    with pytest.raises(ridgeline.Unsupported, match="torch.autograd"):
        torch.func.vmap(lambda q: ridgeline.attention(q, k[0], v[0]))(q)


def test_a_score_function_without_a_compiler_imports_none():
    code = """if True:
        import sys, torch, ridgeline
        q, table = torch.randn(1, 2, 5, 8, requires_grad=True), torch.rand(2)
        ridgeline.attention(q, q, q, score=lambda s, b, h, i, j: s + table[h] * j).sum().backward()
        assert "torch._dynamo" not in sys.modules
    """
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_call_is_recorded_by_torch_jit_trace():
    q, k, v = inputs(grad=False)

    def attend(q, k, v):
        return ridgeline.attention(q, k, v, causal=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shapes become constants
        traced = torch.jit.trace(attend, (q, k, v))
        with pytest.raises(ridgeline.Unsupported, match="torch.jit.trace"):
            torch.jit.trace(lambda q: ridgeline.attention(q, k, v, score=lambda s, b, h, i, j: 2 * s), q)
    assert errors(traced(-q, k, v), attend(-q, k, v)) < 1e-6


def test_a_score_function_is_not_recorded_as_a_constant():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    def attend(q):
        return ridgeline.attention(q, q, q, score=lambda s, b, h, i, j: 2 * s)

    with pytest.raises(ridgeline.Unsupported, match="torch.export, make_fx"):
        make_fx(attend)(torch.randn(1, 1, 5, 8))
    with FakeTensorMode(), pytest.raises(ridgeline.Unsupported, match="torch.export, make_fx"):
        attend(torch.randn(1, 1, 5, 8))


def test_options_that_are_computed_from_dynamic_sizes_stay_in_one_graph():
    def attend(q, k, v):
        return ridgeline.attention(q, k, v, causal=True, window=q.shape[2] // 2, scale=2 / math.sqrt(q.shape[-1]))

    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True, dynamic=True)
    for length, width in ((33, 16), (40, 24)):
        q, k, v = (torch.randn(2, 2, length, width) for _ in range(3))
        assert errors(compiled(q, k, v), attend(q, k, v)) < 1e-6


def test_a_score_function_leaves_the_graph_and_comes_back():
    q, k, v = inputs()
    slopes = torch.rand(2, requires_grad=True)

    def attend(q, k, v):
        return ridgeline.attention(q * 2, k, v, score=lambda s, b, h, i, j: s + slopes[h] * (j - i)) * 3

    out = torch.compile(attend, backend="aot_eager")(q, k, v)
    assert errors(out, attend(q, k, v)) < 1e-6
