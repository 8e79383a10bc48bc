"""The public functions: they read options, and dispatch to PyTorch tensors or other arrays."""

import sys

from . import _arrays
from ._calls import Options
from ._options import read_causal, read_scale, read_window
from .errors import InvalidArgument


_on_tensors = None  # ridgeline.torch's attend(), imported on first use
_Tensor = ()  # torch.Tensor, from then on


def _is_torch(x):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def attention(q, k, v, *, causal=False, window=None, scale=None, enable_gqa=False, return_lse=False, deterministic=False,
              score=None):  # fmt: skip
    """softmax(scale q k^T + mask) v, like torch.nn.functional.scaled_dot_product_attention.

    q is [batch, heads, queries, width], k and v [batch, key_heads, keys, width]; without heads, or without both leading
    axes, it is one head. float32, bfloat16 or float16; any strides that are not negative.

    causal         True or "top_left": query i sees keys up to i; "bottom_right": up to i + keys - queries
    window         a query sees this many keys, the last one at its position; needs causal
    scale          of the scores; None: 1 / sqrt(width)
    enable_gqa     heads of q may be a multiple of those of k
    return_lse     returns (out, log_sum_exp), the latter in float32, [batch, heads, queries], without a gradient
    deterministic  gradients have the same bits from run to run
    score          a function f(s, b, h, i, j) of single scores, s = scale q k^T: softmax(f + mask) v
    """
    global _on_tensors, _Tensor
    if isinstance(q, _Tensor):
        return _on_tensors(q, k, v, causal, window, scale, enable_gqa, return_lse, deterministic, score)
    if _is_torch(q):
        from .torch._attention import attend as _on_tensors

        _Tensor = sys.modules["torch"].Tensor
        return _on_tensors(q, k, v, causal, window, scale, enable_gqa, return_lse, deterministic, score)
    _refuse_tensors(k=k, v=v)
    options = Options(read_scale(scale), read_causal(causal), read_window(window), bool(deterministic))
    operands = ()
    if score is not None:
        from ._trace import trace_arrays

        operands = trace_arrays(score, q, k, options)
    out, lse = _arrays.forward(q, k, v, options, enable_gqa, operands)
    return (out, lse) if return_lse else out


def attention_gradients(q, k, v, out, log_sum_exp, d_out, *, causal=False, window=None, scale=None, enable_gqa=False,
                        deterministic=False):  # fmt: skip
    """Returns (d_q, d_k, d_v) for the gradient d_out of out, given the results of attention(..., return_lse=True).
    Options are those of that call. PyTorch tensors do not need this function: their results have gradients."""
    _refuse_tensors(q=q, k=k, v=v, out=out, log_sum_exp=log_sum_exp, d_out=d_out)
    options = Options(read_scale(scale), read_causal(causal), read_window(window), bool(deterministic))
    return tuple(_arrays.backward(q, k, v, out, log_sum_exp, d_out, options, enable_gqa))


def _refuse_tensors(**arrays):
    for name, x in arrays.items():
        if _is_torch(x):
            raise InvalidArgument(f"{name} is a PyTorch tensor: make all of them tensors (torch.from_numpy), or none")
