"""Prepared calls of the C interface: a repeated call only packs addresses into a struct and runs it."""

import ctypes
import struct

from . import _library
from ._library import lib

MOST_KEPT = 4096  # enough for the shapes of a large program; beyond it all are dropped
MOST_OPERANDS = 6
start = lib.rl_attention_call_run


def strided(shape, strides, axes=4):
    """Returns shape and strides padded to [batch, heads, ...] with axes of size 1: [batch, length, width] is one head,
    [length, width] one head of one batch. A log-sum-exp has one axis less."""
    missing = axes - len(shape)
    lead = 0 if len(shape) < axes - 1 else 1
    return (
        tuple(shape[:lead]) + (1,) * missing + tuple(shape[lead:]),
        tuple(strides[:lead]) + (0,) * missing + tuple(strides[lead:]),
    )


class Options:
    """The options of a call. `program` is None or a compiled score function."""

    __slots__ = ("causal", "deterministic", "program", "scale", "window")

    def __init__(self, scale=0.0, causal=0, window=0, deterministic=False, program=None):
        self.scale, self.causal, self.window = scale, causal, window
        self.deterministic, self.program = deterministic, program


class _Handle(int):
    """The address of a prepared call, destroyed with its last reference: who runs a call holds its handle, while the call
    may be dropped."""

    __slots__ = ()

    def __del__(self, destroy=lib.rl_attention_call_destroy):
        destroy(self)


class Call:
    """A forward or a backward on tensors of given layouts: (shape, strides, dtype), or None for the gradient of an
    operand that is not needed. Layouts are in the order of the C interface, followed by operands and their gradients;
    addresses are in the same order, without those of None. Threads may run one call concurrently, as each packs its own
    struct."""

    __slots__ = ("handle", "pack", "size", "workspace_bytes")

    def __init__(self, device, context, layouts, options, addresses, backward=False, operands=0, stream=0):
        names = _library.BACKWARD_TENSORS if backward else _library.FORWARD_TENSORS
        params = _library.BackwardParams() if backward else _library.ForwardParams()
        params.size = ctypes.sizeof(params)
        kept, at = [], iter(addresses)
        tensors = [None if layout is None else _tensor(layout, device, next(at), kept) for layout in layouts]
        for name, tensor in zip(names, tensors):
            setattr(params, name, ctypes.addressof(tensor))
        params.scale, params.window, params.causal = options.scale, options.window, options.causal
        params.deterministic = bool(options.deterministic)
        params.uses_stream, params.stream = device[0] == _library.CUDA, stream
        if options.program is not None:
            params.score, params.operand_count = options.program, operands
            first = len(names)
            params.operands = _list(tensors[first : first + operands], kept)
            if backward:
                params.d_operands = _list(tensors[first + operands :], kept)
        kind = "backward" if backward else "forward"
        needed, handle = ctypes.c_size_t(), ctypes.c_void_p()
        for function, result in (("workspace", needed), ("prepare", handle)):
            ask = getattr(lib, f"rl_attention_{kind}_{function}")
            status = ask(context, ctypes.addressof(params), ctypes.addressof(result))
            if status:
                _library.fail(status)
        self.handle, self.workspace_bytes = _Handle(handle.value), needed.value
        run = struct.Struct(f"{_RUN_FIELDS + len(addresses)}N")
        self.pack, self.size = run.pack, run.size

    def run(self, addresses, stream=0):
        """Runs the call with the context's workspace."""
        status = start(self.pack(self.size, self.handle, stream, 0, 0, *addresses))
        if status:
            _library.fail(status)


_RUN_FIELDS = 5  # of rl_attention_run before its addresses: size, call, stream, workspace, workspace_bytes


def _tensor(layout, device, address, kept):
    shape, strides, dtype = layout
    axes = len(shape)
    both = (ctypes.c_int64 * (2 * axes))(*shape, *strides)
    kept.append(both)
    tensor = _library.Tensor(data=address, ndim=axes, shape=ctypes.addressof(both), strides=ctypes.addressof(both) + 8 * axes)
    tensor.device = _library.Device(*device)
    tensor.dtype = _library.DType(*dtype, 1)
    return tensor


def _list(tensors, kept):
    made = (ctypes.c_void_p * max(1, len(tensors)))()
    for i, tensor in enumerate(tensors):
        made[i] = None if tensor is None else ctypes.addressof(tensor)
    kept.append(made)
    return ctypes.addressof(made)


class Kept(dict):
    """Calls keyed by all their properties except memory."""

    def __init__(self):
        super().__init__()
        _library.forget_after_fork(self.clear)

    def add(self, key, call):
        if len(self) >= MOST_KEPT:
            self.clear()
        self[key] = call
        return call
