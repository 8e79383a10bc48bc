"""Attention with its gradients in one call, on numpy arrays, PyTorch tensors and whatever speaks DLPack.

    import numpy, ridgeline

    q, k, v = (numpy.random.rand(2, 8, 1024, 64).astype("float32") for _ in range(3))
    out = ridgeline.attention(q, k, v, causal=True)

On PyTorch tensors the result has gradients; `ridgeline.torch` holds what needs PyTorch. docs/python.md says more.
"""

from . import score
from ._front import attention, attention_gradients
from ._library import version as _version
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

__version__ = _version()
__all__ = [
    "DeviceError",
    "Error",
    "InternalError",
    "InvalidArgument",
    "NotReady",
    "OutOfMemory",
    "Unsupported",
    "WrongType",
    "attention",
    "attention_gradients",
    "score",
]
