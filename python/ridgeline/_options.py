"""Checks the options of attention() and converts them for the C interface."""

import math
import operator

from .errors import InvalidArgument, Unsupported, WrongType

MOST_KEYS = 2**62 - 1  # of a window: ctypes would truncate larger numbers silently
CAUSAL = {False: 0, True: 1, "top_left": 1, "bottom_right": 2}


def read_causal(causal):
    try:
        return CAUSAL[causal]
    except (KeyError, TypeError):
        raise InvalidArgument(
            f"causal is {causal!r}: use False, True, 'top_left' (the same as True) or 'bottom_right'"
        ) from None


def read_window(window):
    if window is None:
        return 0
    try:
        window = operator.index(window)
    except TypeError:
        raise WrongType(f"window is {window!r}: use a number of keys, or None") from None
    if not 0 <= window <= MOST_KEYS:
        raise InvalidArgument(f"window is {window}: use a number of keys, or None for no window")
    return window


def read_scale(scale):
    """Returns the scale; 0 stands for 1 / sqrt(head_dim)."""
    if scale is None:
        return 0.0
    if isinstance(scale, (str, bytes, bool)):
        raise WrongType(f"scale is {scale!r}: use a number, or None for 1 / sqrt(head_dim)")
    try:
        scale = float(scale)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise WrongType(f"scale is {scale!r}: use a number, or None for 1 / sqrt(head_dim)") from None
    if scale == 0 or not -math.inf < scale < math.inf:  # no isfinite(), for the symbols of torch.compile
        raise InvalidArgument(f"scale is {scale}: use a finite number other than 0")
    return scale


def check_shapes(q, k, v, enable_gqa):
    """Checks the shapes of q, k and v as far as the library itself does not."""
    for name, shape in (("q", q), ("k", k), ("v", v)):
        if not 2 <= len(shape) <= 4:
            raise InvalidArgument(
                f"{name} has shape {tuple(shape)}: use [batch, heads, length, width], [batch, length, width] or "
                "[length, width]"
            )
        if 0 in shape:
            raise InvalidArgument(f"{name} has shape {tuple(shape)}, which is empty: use sizes from 1 on")
    if not len(q) == len(k) == len(v):
        raise InvalidArgument(f"q, k and v have {len(q)}, {len(k)} and {len(v)} axes: give them as many each")
    if len(q) == 4 and q[1] != k[1] and not enable_gqa:
        raise InvalidArgument(f"q has {q[1]} heads and k {k[1]}: pass enable_gqa=True where heads share keys")
    if v[-1] != k[-1]:
        raise Unsupported(f"v is {v[-1]} wide and k {k[-1]}: values of another width are not served")
