"""Attention with a score function on PyTorch tensors, with gradients of the tensors that the function reads."""

import torch

from .._calls import Options
from .._options import check_shapes
from .._trace import sizes_of, trace
from ..score import Expression, _foreign
from . import _kernels


class _ReadTables(torch.overrides.TorchFunctionMode):
    """Sees `table[h]`, where the table is an ordinary tensor, while a function is traced."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is _GET_ITEM or getattr(function, "__name__", "") == "__getitem__":
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(x, Expression) for x in index):
                return _foreign("getitem", args, None)
        return function(*args, **(kwargs or {}))


_GET_ITEM = torch.Tensor.__getitem__


class _ScoredAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, options, deterministic, q, k, v, *operands):
        out, lse = _kernels.forward(q, k, v, options.scale, options.causal, options.window, options.program, operands)
        ctx.save_for_backward(q, k, v, out, lse, *operands)
        ctx.options, ctx.deterministic = options, deterministic
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_out, _):
        q, k, v, out, lse, *operands = ctx.saved_tensors
        options = ctx.options
        wanted = tuple(bool(x) for x in ctx.needs_input_grad[5:])
        gradients = _kernels.backward(d_out, q, k, v, out, lse, options.scale, options.causal, options.window,
                                      ctx.deterministic, options.program, operands, wanted)  # fmt: skip
        return (None, None, *gradients)


def scored(score, q, k, v, scale, causal, window, deterministic):
    _kernels.check_tensors((("q", q), ("k", k), ("v", v)))
    check_shapes(q.shape, k.shape, v.shape, True)
    options = Options(scale, causal, window)
    with _ReadTables():
        options.program, operands = trace(score, sizes_of(q.shape, k.shape), q, options)
    for i, x in enumerate(operands):
        _kernels.check_operand(x, f"tensor {i} of the score function", q.device)
    return _ScoredAttention.apply(options, deterministic, q, k, v, *operands)


if hasattr(torch, "compiler") and hasattr(torch.compiler, "disable"):
    scored = torch.compiler.disable(scored)
