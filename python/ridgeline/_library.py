"""libridgeline.so through ctypes: structs of ridgeline.h, contexts, and errors as exceptions."""

import ctypes
import glob
import os
import sys
import threading

from . import errors

CPU, CUDA = 1, 2
FP32, FP16, BF16, INT32, BOOL = (2, 32), (2, 16), (4, 16), (0, 32), (6, 8)
DTYPE_NAMES = {FP32: "float32", FP16: "float16", BF16: "bfloat16", INT32: "int32", BOOL: "bool"}
FLOATS = (FP32, FP16, BF16)


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DType),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class ContextParams(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("device", Device),
        ("threads", ctypes.c_int32),
        ("uses_stream", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("cache_dir", ctypes.c_char_p),
    ]


class ScoreNode(ctypes.Structure):
    _fields_ = [("op", ctypes.c_int32), ("inputs", ctypes.c_int32 * 3), ("value", ctypes.c_double)]


def _pointers(*names):
    return [(name, ctypes.c_void_p) for name in names]


_OPTIONS = [
    ("scale", ctypes.c_double),
    ("window", ctypes.c_int64),
    ("causal", ctypes.c_int32),
    ("deterministic", ctypes.c_int32),
    ("workspace", ctypes.c_void_p),
    ("workspace_bytes", ctypes.c_size_t),
    ("score", ctypes.c_void_p),
    ("operands", ctypes.c_void_p),
    ("operand_count", ctypes.c_size_t),
]
_STREAM = [("stream", ctypes.c_void_p), ("uses_stream", ctypes.c_int32), ("reserved", ctypes.c_int32)]

FORWARD_TENSORS = ("q", "k", "v", "out", "log_sum_exp")
BACKWARD_TENSORS = ("q", "k", "v", "out", "log_sum_exp", "d_out", "d_q", "d_k", "d_v")


class ForwardParams(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), *_pointers(*FORWARD_TENSORS), *_OPTIONS, *_STREAM]


class BackwardParams(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        *_pointers(*BACKWARD_TENSORS),
        *_OPTIONS,
        ("d_operands", ctypes.c_void_p),
        *_STREAM,
    ]


def library_path():
    """Returns RIDGELINE_LIBRARY, or the path of the library in the wheel."""
    named = os.environ.get("RIDGELINE_LIBRARY")
    return named if named else os.path.join(os.path.dirname(os.path.abspath(__file__)), "libridgeline.so")


def _open():
    path = library_path()
    try:
        library = ctypes.CDLL(path)
    except OSError as problem:
        raise ImportError(
            f"ridgeline's library does not open: {problem}. Install the package with pip (`pip install .` in a "
            "checkout), or let RIDGELINE_LIBRARY name a libridgeline.so"
        ) from None
    address, size = ctypes.c_void_p, ctypes.c_size_t
    library.rl_version.restype = ctypes.c_uint32
    library.rl_last_error.restype = ctypes.c_char_p
    library.rl_attention_call_destroy.argtypes = [address]
    library.rl_attention_call_destroy.restype = None
    for name, arguments in {
        "rl_context_create": [address, address],
        "rl_score_function_create": [address, size, address],
        "rl_attention_forward_prepare": [address, address, address],
        "rl_attention_backward_prepare": [address, address, address],
        "rl_attention_forward_workspace": [address, address, address],
        "rl_attention_backward_workspace": [address, address, address],
        "rl_attention_call_run": [address],
        "rl_measure": [address, address],
    }.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = ctypes.c_int
    return library


lib = _open()


def version():
    number = lib.rl_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def fail(status):
    """Raises the error of the last call of this thread."""
    text = lib.rl_last_error().decode("utf-8", "replace")
    kind = errors.BY_STATUS.get(status, errors.InternalError)
    if kind is errors.NotReady:  # the library's message names a C function
        text = text.split(": call the _warm_up")[0] + ": make the same call once before the capture"
    raise kind(text)


_contexts = {}  # (device type, id, threads) -> address
_lock = threading.Lock()


def context_for(device_type, device_id, threads=0):
    """Returns the process-wide context of a device; on the CPU one for each number of threads."""
    key = (device_type, device_id, threads)
    found = _contexts.get(key)
    if found is not None:
        return found
    if device_type == CUDA:
        _open_nvrtc()
    with _lock:
        if key not in _contexts:
            params = ContextParams(size=ctypes.sizeof(ContextParams), threads=threads)
            params.device = Device(device_type, device_id)
            made = ctypes.c_void_p()
            status = lib.rl_context_create(ctypes.addressof(params), ctypes.addressof(made))
            if status:
                fail(status)
            _contexts[key] = made.value
    return _contexts[key]


def _open_nvrtc():
    """Opens the NVRTC in this Python's packages, where the library does not search."""
    for name in ("libnvrtc.so.13", "libnvrtc.so.12"):
        for folder in sys.path:
            for path in sorted(glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib", name))):
                try:
                    for part in glob.glob(os.path.join(os.path.dirname(path), "libnvrtc-builtins.so.*")):
                        ctypes.CDLL(part)
                    ctypes.CDLL(path)
                    return
                except OSError:
                    continue


_forget = []  # functions that drop other state in a forked process


def forget_after_fork(clear):
    _forget.append(clear)


def _after_fork():
    # A thread that does not exist here may have held a lock, so everything starts anew; old contexts are abandoned.
    global _lock
    _lock = threading.Lock()
    _contexts.clear()
    for clear in _forget:
        clear()


os.register_at_fork(after_in_child=_after_fork)
