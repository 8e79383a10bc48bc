"""Attention with its gradients in one call, on numpy arrays, PyTorch tensors and any array that supports DLPack, and
the laboratory: studies, a harness and a check for your own attention functions.

    import numpy, ridgeline

    q, k, v = (numpy.random.rand(2, 8, 1024, 64).astype("float32") for _ in range(3))
    out = ridgeline.attention(q, k, v, causal=True)
    rows = ridgeline.attention_study(impl=["naive", "flash"], seq_len=[256, 1024], d_model=64)
    row = ridgeline.measure(lambda: ridgeline.attention(q, k, v), flops=4 * 2 * 8 * 1024**2 * 64)

On PyTorch tensors the result has gradients; `ridgeline.torch` holds what needs PyTorch, `ridgeline.lab` the helpers of
lab courses. See docs/python.md.
"""

from . import laboratory, score
from ._front import attention, attention_gradients
from ._library import version as _version
from ._measure import measure
from ._records import Records
from ._verify import verify
from .errors import (
    DeviceError,
    Error,
    InternalError,
    InvalidArgument,
    NotReady,
    OutOfMemory,
    Unsupported,
    WrongType,
)

from .laboratory import *  # noqa: F403

__version__ = _version()
__all__ = [
    *laboratory.__all__,
    "DeviceError",
    "Error",
    "InternalError",
    "InvalidArgument",
    "NotReady",
    "OutOfMemory",
    "Records",
    "Unsupported",
    "WrongType",
    "attention",
    "attention_gradients",
    "laboratory",
    "measure",
    "score",
    "verify",
]
