"""scaled_dot_product_attention on our kernels, for models that are left as they are."""

import warnings

import torch

from .._library import FLOATS
from ..errors import Unsupported
from . import _kernels
from ._attention import attention

_NAME = "RIDGELINE"
WIDEST_HEAD = 256


def _why_not(q, k, v, attn_mask, dropout_p):
    """What of a call we do not serve; None: all is served."""
    if attn_mask is not None:
        return "attn_mask"
    if dropout_p:
        return "dropout"
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


_said = set()


def _say(reason):
    if reason not in _said:
        _said.add(reason)
        warnings.warn(
            f"ridgeline does not serve scaled_dot_product_attention with {reason}: such calls run on PyTorch's own kernels "
            "(said once)",
            stacklevel=3,
        )


class Activation:
    """What activate() returns: remove() ends it, as does the end of a `with`."""

    def __init__(self, remove):
        self._remove = remove

    def remove(self):
        remove, self._remove = self._remove, None
        if remove is not None:
            remove()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def activate(replace=None):
    """Runs scaled_dot_product_attention on our kernels, on the CPU and on GPUs, until remove() is called or the `with`
    ends. From PyTorch 2.11 on we register as a flash implementation, so that torch.compile sees PyTorch's own ops; for
    older ones, or with replace=True, torch.nn.functional.scaled_dot_product_attention is replaced. Calls that we do not
    serve (masks, dropout) run on PyTorch's kernels, and say so once."""
    if replace is None:
        replace = not _HAS_REGISTRY
    if not replace:
        if not _HAS_REGISTRY:
            raise Unsupported(f"PyTorch {torch.__version__} has no registry of flash implementations: use replace=True")
        torch.nn.attention.activate_flash_attention_impl(_NAME)
        return Activation(_prefer_flash())
    return _replace_function()


def _replace_function():
    functional = torch.nn.functional
    original = getattr(functional, "scaled_dot_product_attention", None)
    if original is None:
        raise Unsupported(f"PyTorch {torch.__version__} has no scaled_dot_product_attention: use 2.0 or newer")

    def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **options):
        reason = _why_not(query, key, value, attn_mask, dropout_p)
        unknown = set(options) - {"scale", "enable_gqa"}
        if reason is None and unknown:
            reason = ", ".join(sorted(unknown))
        if reason is None and query.shape[1] != key.shape[1] and not options.get("enable_gqa"):
            reason = "heads that are broadcast"
        if reason is None and options.get("scale") is not None and not options["scale"] > 0:
            reason = f"scale {options['scale']}"
        if reason is not None:
            _say(reason)
            return original(query, key, value, attn_mask, dropout_p, is_causal, **options)
        return attention(query, key, value, causal=is_causal, **options)

    functional.scaled_dot_product_attention = scaled_dot_product_attention

    def remove():
        if functional.scaled_dot_product_attention is scaled_dot_product_attention:
            functional.scaled_dot_product_attention = original

    return Activation(remove)


_HAS_REGISTRY = hasattr(getattr(torch.nn, "attention", None), "register_flash_attention_impl") and hasattr(torch.library, "get_kernel")


def _prefer_flash():
    """PyTorch asks cuDNN before flash on some GPUs, and then never comes to us; returns what undoes all of it."""
    had_cudnn = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)

    def restore():
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
    """Puts our kernels in the place of PyTorch's flash attention; what we do not serve goes to the ones that were there."""
    library = torch.library.Library("aten", "IMPL")

    def put(op, device, serve):
        """serve(arguments by name) returns the results, or a reason why not."""
        schema = getattr(torch.ops.aten, op).default._schema
        names = [argument.name for argument in schema.arguments]
        defaults = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
        original = torch.library.get_kernel(f"aten::{op}", device)

        def kernel(keys, *args, **kwargs):
            made = serve({**defaults, **dict(zip(names, args)), **kwargs})
            if not isinstance(made, str):
                return made
            _say(made)
            return original.call_boxed(keys, *args, **kwargs)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch says that a kernel is replaced, which is what was asked for
            library.impl(op, kernel, device, with_keyset=True)

    put("_scaled_dot_product_flash_attention", "CUDA", _cuda_forward)
    put("_scaled_dot_product_flash_attention_backward", "CUDA", _backward)
    put("_scaled_dot_product_flash_attention_for_cpu", "CPU", _cpu_forward)
    put("_scaled_dot_product_flash_attention_for_cpu_backward", "CPU", _backward)
    return _Handle(library)


def _reason(a):
    reason = _why_not(a["query"], a["key"], a["value"], a.get("attn_mask"), a["dropout_p"])
    if reason is None and a["scale"] is not None and not a["scale"] > 0:
        reason = f"scale {a['scale']}"
    return reason


def _forward(a):
    return _kernels.forward(a["query"], a["key"], a["value"], a["scale"] or 0.0, int(a["is_causal"]), 0)


def _cpu_forward(a):
    reason = _reason(a)
    if reason is not None:
        return reason
    out, lse = _forward(a)
    return out, lse.transpose(1, 2).contiguous().transpose(1, 2)  # as PyTorch's own lies


def _cuda_forward(a):
    reason = "a debug mask" if a["return_debug_mask"] else _reason(a)
    if reason is not None:
        return reason
    out, lse = _forward(a)
    q, k = a["query"], a["key"]
    seed = torch.empty(2, dtype=torch.uint64, device=q.device)  # of a dropout that there is not
    offset = torch.empty((), dtype=torch.uint64, device=q.device)
    return out, lse, None, None, q.shape[2], k.shape[2], seed, offset, q.new_empty(0)


def _backward(a):
    reason = _reason(a)
    if reason is not None:
        return reason
    return _kernels.backward(a["grad_out"], a["query"], a["key"], a["value"], a["out"], a["logsumexp"],
                             a["scale"] or 0.0, int(a["is_causal"]), 0,
                             torch.are_deterministic_algorithms_enabled())  # fmt: skip


if _HAS_REGISTRY:
    torch.nn.attention.register_flash_attention_impl(_NAME, register_fn=_register)
