"""Attention on arrays other than PyTorch tensors: numpy's, and any that support DLPack."""

import ctypes
import sys

from . import _library
from ._calls import Call, Kept, strided
from ._options import check_shapes
from .errors import DeviceError, InvalidArgument, Unsupported, WrongType

_kept = Kept()

_NUMPY = {
    "float32": _library.FP32,
    "float16": _library.FP16,
    "bfloat16": _library.BF16,
    "int32": _library.INT32,
    "bool": _library.BOOL,
}
LEGACY_DEFAULT_STREAM = 1  # the number of stream 0 in DLPack and CUDA


class _DLTensor(ctypes.Structure):
    _fields_ = [*_library.Tensor._fields_[:4], ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]  # fmt: skip


class _VersionedTensor(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes, _capsule_is.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int


class Array:
    """The address, device, dtype and layout of an array. `owner` keeps its memory alive."""

    __slots__ = ("address", "device", "dtype", "owner", "shape", "strides")

    def layout(self, axes=4):
        return (*strided(self.shape, self.strides, axes), self.dtype)


def _is_numpy(x):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.ndarray)


def _read_numpy(x, name):
    array = Array()
    array.owner, array.device, array.shape = x, (_library.CPU, 0), x.shape
    array.dtype = _NUMPY.get(x.dtype.name)
    if array.dtype is None or not x.dtype.isnative:
        raise Unsupported(f"{name} is {x.dtype}: use float32, float16 or bfloat16 in the machine's byte order")
    for size, stride in zip(x.shape, x.strides):
        if size > 1 and stride % x.itemsize:
            raise InvalidArgument(f"{name} has strides of {x.strides} bytes, which are no multiples of its elements")
    array.strides = tuple(stride // x.itemsize for stride in x.strides)
    array.address = x.ctypes.data
    return array


def _read_dlpack(x, name):
    try:
        kind, number = (int(part) for part in x.__dlpack_device__())
    except Exception as problem:
        raise WrongType(f"{name} does not tell its device by DLPack: {problem}") from problem
    if kind not in (_library.CPU, _library.CUDA):
        raise Unsupported(f"{name} is on a device of DLPack type {kind}: use the CPU (1) or a CUDA GPU (2)")
    stream = LEGACY_DEFAULT_STREAM if kind == _library.CUDA else None
    try:
        try:
            capsule = x.__dlpack__(stream=stream, max_version=(1, 0))
        except TypeError:  # a producer older than DLPack 1.0
            capsule = x.__dlpack__(stream=stream)
    except Exception as problem:
        raise InvalidArgument(f"{name} is not exported by DLPack: {problem}") from problem
    # The capsule is read but not consumed, so that it releases the array when it is destroyed.
    if _capsule_is(capsule, b"dltensor_versioned"):
        managed = _VersionedTensor.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise Unsupported(f"{name} speaks DLPack {managed.major}.{managed.minor}: 1.x is served")
        tensor = managed.tensor
    elif _capsule_is(capsule, b"dltensor"):
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    else:
        raise WrongType(f"{name}.__dlpack__() gave no capsule of DLPack")
    array = Array()
    array.owner, array.device = (x, capsule), (kind, number)
    array.dtype = (tensor.dtype.code, tensor.dtype.bits)
    if array.dtype not in _library.DTYPE_NAMES or tensor.dtype.lanes != 1:
        raise Unsupported(f"{name} has DLPack dtype {array.dtype}: use float32, float16 or bfloat16")
    array.shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides:
        array.strides = tuple(tensor.strides[: tensor.ndim])
    else:
        array.strides = contiguous(array.shape)
    array.address = (tensor.data or 0) + tensor.byte_offset
    return array


def contiguous(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def read(x, name):
    if _is_numpy(x):
        return _read_numpy(x, name)
    if hasattr(type(x), "__dlpack__") and hasattr(type(x), "__dlpack_device__"):
        return _read_dlpack(x, name)
    raise WrongType(
        f"{name} is {type(x).__module__}.{type(x).__qualname__}: pass a numpy array, a PyTorch tensor, or an array that "
        "speaks DLPack"
    )


def read_floats(x, name):
    array = read(x, name)
    if array.dtype not in _library.FLOATS:
        raise Unsupported(f"{name} is {_library.DTYPE_NAMES[array.dtype]}: use float32, float16 or bfloat16")
    return array


def namespace(x):
    """Returns the namespace of the library that an array comes from."""
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    return sys.modules[type(x).__module__.split(".")[0]]


def _numpy():
    try:
        import numpy
    except ImportError:
        raise DeviceError("results of arrays on the CPU need numpy: pip install numpy") from None
    return numpy


def _new(like, array, shape, dtype):
    """Returns an uninitialised array of the library that `like` comes from, and its Array."""
    if array.device[0] == _library.CPU:
        if dtype == _library.BF16:
            try:
                import ml_dtypes
            except ImportError:
                raise Unsupported("bfloat16 in numpy needs ml_dtypes: pip install ml_dtypes") from None
            kind = ml_dtypes.bfloat16
        else:
            kind = _library.DTYPE_NAMES[dtype]
        made = _numpy().empty(shape, kind)
        return made, _read_numpy(made, "a result")
    space, name = namespace(like), _library.DTYPE_NAMES[dtype]
    if not hasattr(space, "empty"):
        raise Unsupported(f"{type(like).__module__} has no empty() for results: use CuPy, JAX or PyTorch on a GPU")
    made = space.empty(shape, dtype=like.dtype if dtype == array.dtype else name)
    return made, read(made, "a result")


def _returned(made, like):
    """Converts a result, which on the CPU is numpy's, to the library of `like`, without a copy if possible."""
    if _is_numpy(like) or not _is_numpy(made):
        return made
    space = namespace(like)
    for convert in (getattr(space, "from_dlpack", None), getattr(space, "asarray", None)):
        try:
            return convert(made)
        except Exception:  # it does not accept this array; the result stays numpy's
            continue
    return made


def _expect_alike(first, others):
    for name, array in others:
        if array.device != first.device:
            raise InvalidArgument(f"{name} is on device {array.device}, q on {first.device} (DLPack's type and number)")
        if array.dtype != first.dtype:
            raise InvalidArgument(
                f"{name} is {_library.DTYPE_NAMES[array.dtype]}, q {_library.DTYPE_NAMES[first.dtype]}: give them one dtype"
            )


def _run(device, arrays, layouts, options, backward, operands=0):
    context = _library.context_for(*device)
    key = (device, backward, tuple(layouts), options.scale, options.causal, options.window, options.deterministic,
           options.program)  # fmt: skip
    addresses = [array.address for array in arrays]
    call = _kept.get(key)
    if call is None:
        call = _kept.add(key, Call(device, context, layouts, options, addresses, backward, operands))
    call.run(addresses)  # with the context's own workspace, as no allocator here knows the stream


def forward(q, k, v, options, enable_gqa=False, operands=()):
    """Returns the output and the log-sum-exp."""
    inputs = [read_floats(x, name) for x, name in ((q, "q"), (k, "k"), (v, "v"))]
    first = inputs[0]
    _expect_alike(first, (("k", inputs[1]), ("v", inputs[2])))
    check_shapes(*(array.shape for array in inputs), enable_gqa)
    out, out_array = _new(q, first, first.shape, first.dtype)
    lse, lse_array = _new(q, first, first.shape[:-1], _library.FP32)
    arrays = [*inputs, out_array, lse_array]
    layouts = [array.layout() for array in arrays[:4]] + [lse_array.layout(3)]
    _add_operands(arrays, layouts, operands, first)
    _run(first.device, arrays, layouts, options, False, len(operands))
    return _returned(out, q), _returned(lse, q)


def _add_operands(arrays, layouts, operands, first):
    for i, operand in enumerate(operands):
        array = read(operand, f"operand {i} of the score function")
        if array.device != first.device:
            raise InvalidArgument(f"operand {i} of the score function is on another device than q")
        arrays.append(array)
        layouts.append((array.shape, array.strides, array.dtype))


def backward(q, k, v, out, log_sum_exp, d_out, options, enable_gqa=False, operands=()):
    """Returns the gradients of q, k and v, and of the floating-point operands."""
    names = ("q", "k", "v", "out", "log_sum_exp", "d_out")
    inputs = [read_floats(x, name) for x, name in zip((q, k, v, out, log_sum_exp, d_out), names)]
    first = inputs[0]
    _expect_alike(first, [(names[i], inputs[i]) for i in (1, 2, 3, 5)])
    check_shapes(*(array.shape for array in inputs[:3]), enable_gqa)
    results = [_new(x, array, array.shape, array.dtype) for x, array in zip((q, k, v), inputs)]
    arrays = inputs + [array for _, array in results]
    layouts = [array.layout(3 if i == 4 else 4) for i, array in enumerate(arrays)]
    _add_operands(arrays, layouts, operands, first)
    for operand, array in zip(operands, arrays[9:]):
        if array.dtype in _library.FLOATS:
            results.append(_new(operand, array, array.shape, array.dtype))
            arrays.append(results[-1][1])
            layouts.append((results[-1][1].shape, results[-1][1].strides, array.dtype))
        else:
            results.append((None, None))
            layouts.append(None)
    _run(first.device, arrays, layouts, options, True, len(operands))
    return [None if made is None else _returned(made, q) for made, _ in results]
