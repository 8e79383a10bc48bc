"""Calls of the C interface whose structs are filled in once; a further call sets addresses and nothing else."""

import ctypes

from . import _library
from ._library import lib

MOST_KEPT = 4096  # as many as the shapes of a large program; beyond them all start anew
MOST_OPERANDS = 6


def strided(shape, strides, axes=4):
    """Shape and strides with axes of one element after the first, as [batch, heads, ...] has them: [batch, length,
    width] is one head, [length, width] one batch of it. The rows of a log-sum-exp have one axis less."""
    missing = axes - len(shape)
    lead = 0 if len(shape) < axes - 1 else 1
    return (
        tuple(shape[:lead]) + (1,) * missing + tuple(shape[lead:]),
        tuple(strides[:lead]) + (0,) * missing + tuple(strides[lead:]),
    )


class Options:
    """What a call computes, besides its tensors. `program` is None or a compiled score function."""

    __slots__ = ("causal", "deterministic", "program", "scale", "window")

    def __init__(self, scale=0.0, causal=0, window=0, deterministic=False, program=None):
        self.scale, self.causal, self.window = scale, causal, window
        self.deterministic, self.program = deterministic, program


class Call:
    """A forward or a backward on tensors of given layouts: (shape, strides, dtype), or None for a gradient of an operand
    that nobody wants. Layouts stand in the order of the C interface, operands and their gradients behind."""

    __slots__ = ("_arrays", "_function", "_params", "_tensors", "context", "params", "workspace_bytes")

    def __init__(self, device, context, layouts, options, backward=False, operands=0):
        names = _library.BACKWARD_TENSORS if backward else _library.FORWARD_TENSORS
        params = _library.BackwardParams() if backward else _library.ForwardParams()
        params.size = ctypes.sizeof(params)
        self.context, self._params, self._arrays = context, params, []
        self._tensors = [None if layout is None else self._tensor(layout, device) for layout in layouts]
        for name, tensor in zip(names, self._tensors):
            setattr(params, name, ctypes.addressof(tensor))
        params.scale, params.window, params.causal = options.scale, options.window, options.causal
        params.deterministic = bool(options.deterministic)
        params.uses_stream = device[0] == _library.CUDA
        if options.program is not None:
            params.score, params.operand_count = options.program, operands
            first = len(names)
            params.operands = self._list(self._tensors[first : first + operands])
            if backward:
                params.d_operands = self._list(self._tensors[first + operands :])
        self._tensors = [tensor for tensor in self._tensors if tensor is not None]
        self.params = ctypes.addressof(params)
        self._function = lib.rl_attention_backward if backward else lib.rl_attention_forward
        self.workspace_bytes = 0
        if device[0] == _library.CUDA:
            ask = lib.rl_attention_backward_workspace if backward else lib.rl_attention_forward_workspace
            needed = ctypes.c_size_t()
            status = ask(context, self.params, ctypes.addressof(needed))
            if status:
                _library.fail(status)
            self.workspace_bytes = needed.value

    def _tensor(self, layout, device):
        shape, strides, dtype = layout
        axes = len(shape)
        both = (ctypes.c_int64 * (2 * axes))(*shape, *strides)
        self._arrays.append(both)
        tensor = _library.Tensor(ndim=axes, shape=ctypes.addressof(both), strides=ctypes.addressof(both) + 8 * axes)
        tensor.device = _library.Device(*device)
        tensor.dtype = _library.DType(*dtype, 1)
        return tensor

    def _list(self, tensors):
        made = (ctypes.c_void_p * max(1, len(tensors)))()
        for i, tensor in enumerate(tensors):
            made[i] = None if tensor is None else ctypes.addressof(tensor)
        self._arrays.append(made)
        return ctypes.addressof(made)

    def run(self, addresses, stream=None, workspace=None):
        """Addresses in the order of the layouts; the GPU's work is queued on the stream."""
        for tensor, address in zip(self._tensors, addresses):
            tensor.data = address
        if stream is not None:
            self._params.stream = stream
        if self.workspace_bytes:
            self._params.workspace, self._params.workspace_bytes = workspace, self.workspace_bytes
        status = self._function(self.context, self.params)
        if status:
            _library.fail(status)


class Kept:
    """Calls that no thread uses at the moment, by everything about them but their memory."""

    def __init__(self):
        self._free = {}
        _library.forget_after_fork(self._free.clear)

    def take(self, key):
        """A call, or None; and where it goes back when it is done."""
        free = self._free.get(key)
        if free is None:
            if len(self._free) >= MOST_KEPT:
                self._free.clear()
            free = self._free.setdefault(key, [])
        try:
            return (free.pop() if free else None), free
        except IndexError:  # another thread took it
            return None, free
