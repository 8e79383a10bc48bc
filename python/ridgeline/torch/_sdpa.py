"""scaled_dot_product_attention on our kernels, for unchanged models."""

import warnings

import torch

from .._library import FLOATS
from ..errors import Unsupported
from . import _attention, _kernels

_NAME = "RIDGELINE"
WIDEST_HEAD = 256
_flash_enabled = getattr(torch.backends.cuda, "flash_sdp_enabled", None)  # PyTorch's flag of all devices


def _why_not(q, k, v):
    """Returns what of these tensors is not supported, or None."""
    if not q.dim() == k.dim() == v.dim() == 4:
        return f"{q.dim()} axes"
    if not q.dtype == k.dtype == v.dtype or _kernels._DTYPES.get(q.dtype) not in FLOATS:
        return f"dtypes {q.dtype}, {k.dtype}, {v.dtype}"
    if q.device.type not in ("cpu", "cuda") or not q.device == k.device == v.device:
        return f"tensors on {q.device}, {k.device}, {v.device}"
    if not q.shape[-1] == k.shape[-1] == v.shape[-1] or q.shape[-1] > WIDEST_HEAD:
        return f"heads {q.shape[-1]} and {v.shape[-1]} wide"
    if q.shape[0] != k.shape[0] or k.shape[:3] != v.shape[:3]:
        return "shapes that are broadcast"
    if 0 in q.shape or 0 in k.shape or q.shape[1] % k.shape[1]:
        return f"shapes {tuple(q.shape)} and {tuple(k.shape)}"
    if any(stride == 0 for x in (q, k, v) for size, stride in zip(x.shape[2:], x.stride()[2:]) if size > 1):
        return "tensors that are expanded along the sequence"
    return None


def _why_not_alone(q, k, v):
    """The same for a call in which heads may not share keys."""
    return _why_not(q, k, v) or ("heads that are broadcast" if q.shape[1] != k.shape[1] else None)


_said = set()


def _say(reason):
    if reason not in _said:
        _said.add(reason)
        warnings.warn(
            f"ridgeline does not serve scaled_dot_product_attention with {reason}: such calls run on PyTorch's own kernels "
            "(said once)",
            stacklevel=3,
        )


def _why_not_options(attn_mask, dropout_p, scale):
    if attn_mask is not None:
        return "attn_mask"
    if dropout_p:
        return "dropout"
    return None if scale is None or scale > 0 else f"scale {scale}"


def _plan(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa=True):
    """Returns the plan for a call, or the reason why there is none."""
    return _why_not_options(attn_mask, dropout_p, scale) or _kernels.plan(
        q, k, v, 0.0 if scale is None else scale, 1 if is_causal else 0, 0, torch.are_deterministic_algorithms_enabled(),
        True if enable_gqa else False, _why_not if enable_gqa else _why_not_alone)  # fmt: skip


def _serve(q, k, v, attn_mask, dropout_p, is_causal, scale=None, enable_gqa=False, **others):
    """Returns the output, or the reason why the call is not supported."""
    if others:
        return ", ".join(sorted(others))
    if not (_attention._compiling() or _flash_enabled()):
        return "flash attention disabled, as by sdpa_kernel()"
    if q.is_nested:  # such a tensor has no shape
        return "nested tensors"
    if _attention.is_watched(q, k, v):
        refuse = _why_not if enable_gqa else _why_not_alone
        return (_why_not_options(attn_mask, dropout_p, scale) or _attention.transform_of(q, k, v) or refuse(q, k, v) or
                _attention.attention(q, k, v, causal=is_causal, scale=scale, enable_gqa=enable_gqa))  # fmt: skip
    if _attention.any_autocast():
        q, k, v = _attention.cast(q, k, v)
    plan = _plan(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return plan if type(plan) is str else _attention.run(plan, q, k, v)


class Activation:
    """The result of activate(): remove() ends it, as does the end of a `with`."""

    def __init__(self, ends):
        self._ends = ends

    def remove(self):
        while self._ends:
            self._ends.pop()()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def activate(replace=None):
    """Runs scaled_dot_product_attention on our kernels, on the CPU and on GPUs, until remove() is called or the `with`
    ends. From PyTorch 2.11 on our kernels are registered as a flash implementation, so that torch.compile sees
    PyTorch's own ops, and torch.nn.functional.scaled_dot_product_attention is replaced by a function that calls them
    directly where nothing is compiled. For older versions, or with replace=True, only the function is replaced; with
    replace=False it is not. Unsupported calls (masks, dropout) run on PyTorch's kernels, with one warning."""
    if not replace and not _HAS_REGISTRY and replace is not None:
        raise Unsupported(f"PyTorch {torch.__version__} has no registry of flash implementations: use replace=True")
    registers = _HAS_REGISTRY and not replace
    ends = []
    if replace is not False:
        ends.append(_replace_function(registers))
    if registers:
        ends.append(_select_registered())
    return Activation(ends)


def _replace_function(registered):
    """Replaces the function and returns one that restores it. If `registered`, calls under a compiler or a mode go to
    the original, which reaches our registered kernels."""
    functional = torch.nn.functional
    original = getattr(functional, "scaled_dot_product_attention", None)
    if original is None:
        raise Unsupported(f"PyTorch {torch.__version__} has no scaled_dot_product_attention: use 2.0 or newer")

    def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **options):
        if not (registered and _attention.is_watched(query, key, value)):
            made = _serve(query, key, value, attn_mask, dropout_p, is_causal, **options)
            if type(made) is not str:
                return made
            _say(made)
        return original(query, key, value, attn_mask, dropout_p, is_causal, **options)

    functional.scaled_dot_product_attention = scaled_dot_product_attention
    scaled_dot_product_attention.replaced = original

    def restore():  # one that is not the last waits until those after it are removed
        scaled_dot_product_attention.is_removed = True
        while getattr(functional.scaled_dot_product_attention, "is_removed", False):
            functional.scaled_dot_product_attention = functional.scaled_dot_product_attention.replaced

    return restore


_HAS_REGISTRY = hasattr(getattr(torch.nn, "attention", None), "register_flash_attention_impl") and hasattr(torch.library, "get_kernel")


_selections = []  # of every activation: whether cuDNN was enabled before the first


def _select_registered():
    """Selects our registered kernels and disables cuDNN, which PyTorch prefers to flash attention on some GPUs. Returns a
    function that undoes it if no other activation is left."""
    if not _selections:
        torch.nn.attention.activate_flash_attention_impl(_NAME)
    _selections.append(_selections[0] if _selections else torch.backends.cuda.cudnn_sdp_enabled())
    torch.backends.cuda.enable_cudnn_sdp(False)

    def restore():
        had_cudnn = _selections.pop()
        if _selections:
            return
        torch.backends.cuda.enable_cudnn_sdp(had_cudnn)
        if torch.nn.attention.current_flash_attention_impl() == _NAME:
            torch.nn.attention.restore_flash_attention_impl()

    return restore


class _Handle:
    def __init__(self, library):
        self._library = library

    def remove(self):
        self._library._destroy()


def _register():
    """Replaces PyTorch's flash attention by our kernels; unsupported calls go to the original ones."""
    library = torch.library.Library("aten", "IMPL")
    for op, device, serve in _OPS:
        original = torch.library.get_kernel(f"aten::{op}", device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that a kernel is replaced, which is intended
            library.impl(op, _kernel(serve, original), device, with_keyset=True)
    return _Handle(library)


def _kernel(serve, original):
    """Returns the kernel of an op: serve() with the op's arguments returns the results, or the reason why not."""

    def kernel(keys, *args, **kwargs):
        made = serve(*args, **kwargs)
        if type(made) is not str:
            return made
        _say(made)
        return original.call_boxed(keys, *args, **kwargs)

    return kernel


def _cpu_forward(q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    plan = _plan(q, k, v, attn_mask, dropout_p, is_causal, scale)
    if type(plan) is str:
        return plan
    out, lse = plan.run(q, k, v)
    return out, lse.transpose(1, 2).contiguous().transpose(1, 2)  # in the layout of PyTorch's own


def _cuda_forward(q, k, v, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    plan = "a debug mask" if return_debug_mask else _plan(q, k, v, None, dropout_p, is_causal, scale)
    if type(plan) is str:
        return plan
    out, lse = plan.run(q, k, v)
    seed = plan.empty((2,), (1,), torch.uint64)  # seed and offset of a dropout that is never used
    offset, mask = plan.empty((), (), torch.uint64), plan.empty((0,), (1,), q.dtype)
    return out, lse, None, None, q.shape[2], k.shape[2], seed, offset, mask


def _cpu_backward(d_out, q, k, v, out, lse, dropout_p, is_causal, *, attn_mask=None, scale=None):
    plan = _plan(q, k, v, attn_mask, dropout_p, is_causal, scale)
    return plan if type(plan) is str else _kernels.gradients(plan, d_out, q, k, v, out, lse)


def _cuda_backward(d_out, q, k, v, out, lse, first_q, first_k, most_q, most_k, dropout_p, is_causal, seed, offset, *,
                   scale=None):  # fmt: skip
    return _cpu_backward(d_out, q, k, v, out, lse, dropout_p, is_causal, scale=scale)


_OPS = (
    ("_scaled_dot_product_flash_attention", "CUDA", _cuda_forward),
    ("_scaled_dot_product_flash_attention_backward", "CUDA", _cuda_backward),
    ("_scaled_dot_product_flash_attention_for_cpu", "CPU", _cpu_forward),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", "CPU", _cpu_backward),
)

if _HAS_REGISTRY:
    torch.nn.attention.register_flash_attention_impl(_NAME, register_fn=_register)
