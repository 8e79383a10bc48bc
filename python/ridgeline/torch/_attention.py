"""attention() on PyTorch tensors: an autograd.Function in eager mode, an op with a fake kernel for torch.compile."""

import torch
from torch.autograd import forward_ad

from .._options import check_shapes, read_causal, read_scale, read_window
from ..errors import Unsupported
from . import _kernels

_HAS_OPS = hasattr(torch.library, "register_autograd")  # PyTorch 2.4
_NO_SECOND_GRADIENTS = "gradients of gradients are not served: use plain formulas, or sdpa_kernel(SDPBackend.MATH) of PyTorch"


class _Attention(torch.autograd.Function):
    """Returns the output, and saves the log-sum-exp for backward."""

    @staticmethod
    def forward(ctx, q, k, v, plan):
        out, lse = plan.run(q, k, v)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.plan = plan
        return out

    @staticmethod
    def backward(ctx, d_out):
        saved = ctx.saved_tensors
        if _grad_enabled():
            return *differentiated_once(lambda: _kernels.gradients(ctx.plan, d_out, *saved), d_out, *saved), None
        return *_kernels.gradients(ctx.plan, d_out, *saved), None


class _Once(torch.autograd.Function):
    """Passes on gradients that depend on `sources`, and refuses to differentiate them again."""

    @staticmethod
    def forward(ctx, source_count, *tensors):
        return tuple(x if x is None else x.view_as(x) for x in tensors[source_count:])

    @staticmethod
    def backward(ctx, *_):
        raise Unsupported(_NO_SECOND_GRADIENTS)


def differentiated_once(gradients, *sources):
    """Returns gradients() for a backward with create_graph. PyTorch's once_differentiable would take results for constants
    if only saved tensors need gradients, and second derivatives would be silently zero."""
    with torch.no_grad():
        made = gradients()
    return _Once.apply(len(sources), *sources, *made)


class _AttentionAndRows(torch.autograd.Function):
    """The same, but also returns the log-sum-exp."""

    @staticmethod
    def forward(ctx, q, k, v, plan):
        out, lse = plan.run(q, k, v)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.plan = plan
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)  # the log-sum-exp has no gradient
        return out, lse

    @staticmethod
    def backward(ctx, d_out, _):
        return (None,) * 4 if d_out is None else _Attention.backward(ctx, d_out)


# Function.apply of PyTorch before 2.15 checks for torch.func transforms in Python; is_watched() has already done so.
_apply = super(torch.autograd.Function, _Attention).apply


class FlashAttention(torch.autograd.Function):
    """FlashAttention.apply(q, k, v, is_causal=False), in the form that courses ask for: it saves q, k, v, the output
    and one log-sum-exp per query, and recomputes the rest. q, k and v may be with or without heads."""

    @staticmethod
    def forward(ctx, q, k, v, is_causal=False):
        plan = _kernels.plan(q, k, v, 0.0, read_causal(is_causal), 0, False, False)
        return _Attention.forward(ctx, q, k, v, plan)

    @staticmethod
    def backward(ctx, d_out):
        return _Attention.backward(ctx, d_out)


def _define_ops():
    """Defines torch.ops.ridgeline.attention and its backward, so that torch.compile needs no graph break."""
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

    def refuse(ctx, *_):
        raise Unsupported(_NO_SECOND_GRADIENTS)

    torch.library.register_autograd("ridgeline::attention", gradients, setup_context=keep, lib=library)
    torch.library.register_autograd("ridgeline::attention_backward", refuse, lib=library)
    return library


_library = _define_ops() if _HAS_OPS else None


_compiling = torch.compiler.is_compiling if _HAS_OPS else lambda: False
jit_trace = torch._C._get_tracing_state  # None without torch.jit.trace
_modes = torch._C._len_torch_dispatch_stack if _HAS_OPS else lambda: 0
_transforms = torch._C._are_functorch_transforms_active if _HAS_OPS else lambda: False
_grad_enabled = torch.is_grad_enabled
_PLAIN = {torch.Tensor, torch.nn.Parameter}


def any_autocast():
    return torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled()


any_autocast = getattr(torch._C, "_is_any_autocast_enabled", any_autocast)


def _autocast_dtype(x):
    kind = x.device.type
    if kind not in ("cpu", "cuda"):
        return None
    if _HAS_OPS:
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    if kind == "cpu":
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None
    return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None


def attention(q, k, v, *, causal=False, window=None, scale=None, enable_gqa=False, return_lse=False, deterministic=False,
              score=None):  # fmt: skip
    """ridgeline.attention on PyTorch tensors."""
    return attend(q, k, v, causal, window, scale, enable_gqa, return_lse, deterministic, score)


def _score():
    from . import _score  # imported only for score functions

    return _score


def attend(q, k, v, causal, window, scale, enable_gqa, return_lse, deterministic, score):
    """attention() with positional arguments."""
    scale = 0.0 if scale is None else read_scale(scale)
    causal = 0 if causal is False else read_causal(causal)
    window = 0 if window is None else read_window(window)
    deterministic = True if deterministic else False
    if is_watched(q, k, v):
        return _by_op(q, k, v, scale, causal, window, deterministic, enable_gqa, return_lse, score)
    if any_autocast():
        q, k, v = cast(q, k, v)
    if score is not None:
        out, lse = _score().scored(score, q, k, v, scale, causal, window, deterministic, enable_gqa)
        return (out, lse) if return_lse else out
    return run(_plan(q, k, v, scale, causal, window, deterministic, enable_gqa), q, k, v, return_lse)


def _plan(q, k, v, scale, causal, window, deterministic, enable_gqa):
    try:
        return _kernels.plan(q, k, v, scale, causal, window, deterministic, True if enable_gqa else False)
    except (RuntimeError, NotImplementedError):
        _kernels.check_tensors((("q", q), ("k", k), ("v", v)))  # has a clearer message than PyTorch
        raise


def is_watched(q, k, v):
    """Whether a call is not plain: under a compiler, tracer, mode or transform, or with subclasses or negated views."""
    return (_compiling() or jit_trace() is not None or _modes() or _transforms() or forward_ad._current_level >= 0 or
            type(q) not in _PLAIN or type(k) not in _PLAIN or type(v) not in _PLAIN or
            q.is_neg() or k.is_neg() or v.is_neg())  # fmt: skip


def transform_of(*tensors):
    """Returns the name of a transform that our kernels do not have, of a call that is not plain; else None."""
    if _compiling():
        return None
    if _transforms():
        return "transforms of torch.func (grad, vmap, ...)"
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(x).tangent is not None for x in tensors):
        return "forward-mode differentiation"
    return None


def refuse_transforms(*tensors):
    transform = transform_of(*tensors)
    if transform is not None:
        raise Unsupported(f"no support for {transform}: use torch.autograd.grad() or backward()")


def run(plan, q, k, v, return_lse=False):
    """Runs a plan on matching tensors, with a gradient if one is needed."""
    if _grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return _AttentionAndRows.apply(q, k, v, plan) if return_lse else _apply(q, k, v, plan)
    out, lse = plan.run(q, k, v)
    return (out, lse) if return_lse else out


def cast(*tensors):
    """Casts tensors as scaled_dot_product_attention does under autocast."""
    dtype = _autocast_dtype(tensors[0])
    if dtype is None:
        return tensors
    return [x.to(dtype) if x.is_floating_point() and x.dtype != torch.float64 else x for x in tensors]


def _by_op(q, k, v, scale, causal, window, deterministic, enable_gqa, return_lse, score):
    """Runs a call that is not plain as an op, which PyTorch's dispatcher shows to compilers and modes."""
    if not all(isinstance(x, torch.Tensor) and not x.is_nested for x in (q, k, v)):
        _kernels.check_tensors((("q", q), ("k", k), ("v", v)))
    refuse_transforms(q, k, v)
    q, k, v = cast(q, k, v)
    if score is not None:
        out, lse = _score().scored_outside(score, q, k, v, scale, causal, window, deterministic, enable_gqa)
        return (out, lse) if return_lse else out
    if not _HAS_OPS:
        q, k, v = q.resolve_neg(), k.resolve_neg(), v.resolve_neg()
        return run(_plan(q, k, v, scale, causal, window, deterministic, enable_gqa), q, k, v, return_lse)
    check_shapes(q.shape, k.shape, v.shape, enable_gqa)
    out, lse = torch.ops.ridgeline.attention(q, k, v, scale, causal, window, deterministic)
    return (out, lse) if return_lse else out
