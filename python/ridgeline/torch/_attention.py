"""attention() on PyTorch tensors: an autograd.Function in eager mode, an op with a fake kernel for torch.compile."""

import torch

from .._options import check_shapes, read_causal, read_scale, read_window
from ..errors import Unsupported
from . import _kernels

_HAS_OPS = hasattr(torch.library, "register_autograd")  # PyTorch 2.4


class _Attention(torch.autograd.Function):
    """Gives the output, and keeps the log-sum-exp. Options are (scale, causal, window, deterministic)."""

    @staticmethod
    def forward(ctx, q, k, v, options):
        out, lse = _kernels.forward(q, k, v, options[0], options[1], options[2])
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.options = options
        return out

    @staticmethod
    def backward(ctx, d_out):
        if torch.is_grad_enabled():
            return _backward_once(ctx, d_out)
        d_q, d_k, d_v = _kernels.backward(d_out, *ctx.saved_tensors, *ctx.options)
        return d_q, d_k, d_v, None


@torch.autograd.function.once_differentiable  # a few microseconds: only where a graph of the backward is asked for
def _backward_once(ctx, d_out):
    return (*_kernels.backward(d_out, *ctx.saved_tensors, *ctx.options), None)


class _AttentionAndRows(torch.autograd.Function):
    """The same, and gives the log-sum-exp as well."""

    @staticmethod
    def forward(ctx, q, k, v, options):
        out, lse = _kernels.forward(q, k, v, options[0], options[1], options[2])
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.options = options
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, d_out, _):
        return _Attention.backward(ctx, d_out)


class FlashAttention(torch.autograd.Function):
    """FlashAttention.apply(q, k, v, is_causal=False), in the form in which courses have students write it: it saves q,
    k, v, the output and one log-sum-exp per query, and computes the rest again. q, k and v may have heads or none."""

    @staticmethod
    def forward(ctx, q, k, v, is_causal=False):
        check_shapes(q.shape, k.shape, v.shape, False)
        return _Attention.forward(ctx, q, k, v, (0.0, read_causal(is_causal), 0, False))

    @staticmethod
    def backward(ctx, d_out):
        return _Attention.backward(ctx, d_out)


def _define_ops():
    """torch.ops.ridgeline.attention and its backward, which torch.compile keeps in one graph."""
    library = torch.library.Library("ridgeline", "DEF")
    library.define(
        "attention(Tensor q, Tensor k, Tensor v, float scale, int causal, int window, bool deterministic) -> "
        "(Tensor, Tensor)"
    )
    library.define(
        "attention_backward(Tensor d_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor log_sum_exp, float scale, "
        "int causal, int window, bool deterministic) -> (Tensor, Tensor, Tensor)"
    )

    def forward(q, k, v, scale, causal, window, deterministic):
        return _kernels.forward(q, k, v, scale, causal, window)

    for device in ("CPU", "CUDA"):
        library.impl("attention", forward, device)
        library.impl("attention_backward", _kernels.backward, device)

    @torch.library.register_fake("ridgeline::attention", lib=library)
    def _(q, k, v, scale, causal, window, deterministic):
        return torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)

    @torch.library.register_fake("ridgeline::attention_backward", lib=library)
    def _(d_out, q, k, v, out, log_sum_exp, scale, causal, window, deterministic):
        return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:3], *output)
        ctx.options = inputs[3:]
        ctx.mark_non_differentiable(output[1])

    def gradients(ctx, d_out, _):
        made = torch.ops.ridgeline.attention_backward(d_out, *ctx.saved_tensors, *ctx.options)
        return (*made, None, None, None, None)

    torch.library.register_autograd("ridgeline::attention", gradients, setup_context=keep, lib=library)
    return library


_library = _define_ops() if _HAS_OPS else None


if _HAS_OPS:

    def _needs_op(*tensors):
        """Whether something looks at the call that only ops can show: a compiler, a mode, a kind of tensor."""
        if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
            return True
        if torch._C._are_functorch_transforms_active():
            raise Unsupported("transforms of torch.func (grad, vmap, ...) are not served: use torch.autograd")
        return any(type(x) is not torch.Tensor and type(x) is not torch.nn.Parameter for x in tensors)

    def _autocast_dtype(x):
        kind = x.device.type
        if kind != "cpu" and kind != "cuda":
            return None
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None

else:

    def _needs_op(*tensors):
        return False

    def _autocast_dtype(x):
        if x.is_cuda:
            return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None


def attention(q, k, v, *, causal=False, window=None, scale=None, enable_gqa=False, return_lse=False, deterministic=False,
              score=None):  # fmt: skip
    """ridgeline.attention on PyTorch tensors."""
    options = (
        0.0 if scale is None else read_scale(scale),
        read_causal(causal),
        0 if window is None else read_window(window),
        bool(deterministic),
    )
    if not (isinstance(q, torch.Tensor) and isinstance(k, torch.Tensor) and isinstance(v, torch.Tensor)):
        _kernels.check_tensors((("q", q), ("k", k), ("v", v)))
    if q.dim() == 4 and not enable_gqa or q.dim() != k.dim():
        check_shapes(q.shape, k.shape, v.shape, enable_gqa)
    autocast = _autocast_dtype(q)
    if autocast is not None:  # as scaled_dot_product_attention has it
        q, k, v = (x.to(autocast) if x.is_floating_point() else x for x in (q, k, v))
    if score is not None:
        from ._score import scored

        out, lse = scored(score, q, k, v, *options)
    elif _needs_op(q, k, v):
        out, lse = torch.ops.ridgeline.attention(q, k, v, *options)
    else:
        try:
            if q.is_neg() or k.is_neg() or v.is_neg():
                q, k, v = q.resolve_neg(), k.resolve_neg(), v.resolve_neg()
            if not (torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)):
                out, lse = _kernels.forward(q, k, v, options[0], options[1], options[2])
            elif return_lse:
                out, lse = _AttentionAndRows.apply(q, k, v, options)
            else:
                return _Attention.apply(q, k, v, options)
        except (RuntimeError, NotImplementedError):
            _kernels.check_tensors((("q", q), ("k", k), ("v", v)))  # says it better than PyTorch
            raise
    return (out, lse) if return_lse else out
