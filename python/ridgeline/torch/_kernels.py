"""Our kernels on PyTorch tensors: memory from PyTorch's allocator, its current stream, strides as they are."""

import torch

from .. import _library
from .._calls import Call, Kept, Options, strided
from .._options import check_shapes
from ..errors import InvalidArgument, NotReady, Unsupported, WrongType

_kept = Kept()
_DTYPES = {
    torch.float32: _library.FP32,
    torch.float16: _library.FP16,
    torch.bfloat16: _library.BF16,
    torch.int32: _library.INT32,
    torch.bool: _library.BOOL,
}
_ALIGNED = 256  # a workspace's address; PyTorch's memory on a GPU is aligned to 512
_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def check_tensors(named):
    """That each is a dense tensor on the device of the first, in the same floating-point dtype."""
    first = None
    for name, x in named:
        if not isinstance(x, torch.Tensor):
            raise WrongType(f"{name} is {type(x).__module__}.{type(x).__qualname__}: pass a PyTorch tensor, as q is one")
        if x.layout != torch.strided or getattr(x, "is_nested", False):
            raise Unsupported(f"{name} is no dense tensor ({x.layout}): make it one with to_dense()")
        if x.device.type not in ("cpu", "cuda"):
            raise Unsupported(f"{name} is on {x.device}: use the CPU or a CUDA GPU")
        if _DTYPES.get(x.dtype) not in _library.FLOATS:
            raise Unsupported(f"{name} is {x.dtype}: use torch.float32, torch.bfloat16 or torch.float16")
        first = x if first is None else first
        if x.device != first.device:
            raise InvalidArgument(f"{name} is on {x.device}, {named[0][0]} on {first.device}: move them to one device")
        if x.dtype != first.dtype:
            raise InvalidArgument(f"{name} is {x.dtype}, {named[0][0]} {first.dtype}: give them one dtype")


def check_operand(x, name, device):
    if x.device != device:
        raise InvalidArgument(f"{name} is on {x.device}, q on {device}: move them to one device")
    if x.dtype not in _DTYPES:
        raise Unsupported(f"{name} is {x.dtype}: use torch.float32, bfloat16, float16, int32 or bool")


def _layout(x, axes=4):
    return (*strided(x.shape, x.stride(), axes), _DTYPES[x.dtype])


def _layouts(operands):
    return tuple((tuple(x.shape), x.stride(), _DTYPES[x.dtype]) for x in operands)


def _device_of(device):
    return (_library.CUDA, device.index) if device.type == "cuda" else (_library.CPU, 0)


def _context(device, threads):
    if device.type == "cuda" and (_library.CUDA, device.index, 0) not in _library._contexts:
        if torch.cuda.is_current_stream_capturing():
            raise NotReady("the first call on a GPU cannot be captured into a CUDA graph: call once before the capture")
    return _library.context_for(*_device_of(device), threads)


def _start(call, free, addresses, device):
    if device.type == "cpu":
        call.run(addresses)
    elif call.workspace_bytes:
        workspace = torch.empty(call.workspace_bytes, dtype=torch.uint8, device=device)
        call.run(addresses, _current_stream(device.index), workspace.data_ptr())
    else:
        call.run(addresses, _current_stream(device.index))
    free.append(call)


def forward(q, k, v, scale, causal, window, program=None, operands=()):
    """The output, which lies as q does, and the log-sum-exp."""
    device = q.device
    threads = torch.get_num_threads() if device.type == "cpu" else 0
    key = (q.shape, q.stride(), k.shape, k.stride(), v.shape, v.stride(), q.dtype, k.dtype, v.dtype, device, k.device,
           v.device, scale, causal, window, threads, program, _layouts(operands) if operands else None)  # fmt: skip
    call, free = _kept.take(key)
    if call is None:
        check_tensors((("q", q), ("k", k), ("v", v)))
        check_shapes(q.shape, k.shape, v.shape, True)
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=device)
    if call is None:
        layouts = [_layout(q), _layout(k), _layout(v), _layout(out), _layout(lse, 3), *_layouts(operands)]
        call = Call(_device_of(device), _context(device, threads), layouts, Options(scale, causal, window, False, program),
                    operands=len(operands))  # fmt: skip
    addresses = [q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr(), lse.data_ptr()]
    for x in operands:
        addresses.append(x.data_ptr())
    _start(call, free, addresses, device)
    return out, lse


def backward(d_out, q, k, v, out, lse, scale, causal, window, deterministic, program=None, operands=(), wanted=()):
    """The gradients of q, k and v, and of the operands that are wanted."""
    device = q.device
    if 0 in d_out.stride():  # the gradient of a sum is one element that is expanded
        d_out = d_out.contiguous()
    threads = torch.get_num_threads() if device.type == "cpu" else 0
    key = (q.shape, q.stride(), k.shape, k.stride(), v.stride(), out.stride(), lse.stride(), d_out.shape, d_out.stride(),
           q.dtype, d_out.dtype, device, d_out.device, scale, causal, window, deterministic, threads, program, wanted,
           _layouts(operands) if operands else None)  # fmt: skip
    call, free = _kept.take(key)
    if call is None:
        check_tensors((("q", q), ("k", k), ("v", v), ("out", out), ("the gradient of out", d_out)))
    d_q, d_k, d_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    d_operands = ()
    if operands:
        d_operands = [torch.empty(x.shape, dtype=x.dtype, device=device) if want else None
                      for x, want in zip(operands, wanted)]  # fmt: skip
    if call is None:
        tensors = (q, k, v, out, lse, d_out, d_q, d_k, d_v)
        layouts = [_layout(x, 3 if x is lse else 4) for x in tensors] + list(_layouts(operands))
        layouts += [None if x is None else _layouts([x])[0] for x in d_operands]
        call = Call(_device_of(device), _context(device, threads), layouts,
                    Options(scale, causal, window, deterministic, program), True, len(operands))  # fmt: skip
    addresses = [q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr(), lse.data_ptr(), d_out.data_ptr(),
                 d_q.data_ptr(), d_k.data_ptr(), d_v.data_ptr()]  # fmt: skip
    for x in operands:
        addresses.append(x.data_ptr())
    for x in d_operands:
        if x is not None:
            addresses.append(x.data_ptr())
    _start(call, free, addresses, device)
    return (d_q, d_k, d_v, *d_operands)
