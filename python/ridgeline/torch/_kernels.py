"""Our kernels on PyTorch tensors: memory from PyTorch's allocator, its current stream, strides as they are."""

import threading

import torch

from .. import _library
from .._calls import Call, Kept, Options, start, strided
from .._options import check_shapes
from ..errors import InvalidArgument, NotReady, Unsupported, WrongType

_DTYPES = {
    torch.float32: _library.FP32,
    torch.float16: _library.FP16,
    torch.bfloat16: _library.BF16,
    torch.int32: _library.INT32,
    torch.bool: _library.BOOL,
}

# The allocation functions of PyTorch's own compiled code: no dispatcher, on the current device.
_guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
_empty_on_gpu = getattr(_guards, "_empty_strided_cuda", None)
_empty_on_cpu = getattr(_guards, "_empty_strided_cpu", None)
_current_device = getattr(torch._C, "_cuda_getDevice", None)
_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_threads = torch.get_num_threads
_plans, _gradients = Kept(), Kept()
_ahead = Kept()  # plan -> thread that prepares its first backward


def check_tensors(named):
    """Checks that each is a dense tensor on the device of the first, in the same floating-point dtype."""
    first = None
    for name, x in named:
        if not isinstance(x, torch.Tensor):
            raise WrongType(f"{name} is {type(x).__module__}.{type(x).__qualname__}: pass a PyTorch tensor, as q is one")
        if x.layout != torch.strided or getattr(x, "is_nested", False):
            way = "to_padded_tensor()" if getattr(x, "is_nested", False) else "to_dense()"
            raise Unsupported(f"{name} is no dense tensor ({x.layout}): make it one with {way}")
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


def _prepared(tensors, options, backward=False, operands=(), d_operands=()):
    """Returns a Call on tensors in the order of the C interface, of which the fifth is the log-sum-exp."""
    device = tensors[0].device
    layouts = [_layout(x, 3 if i == 4 else 4) for i, x in enumerate(tensors)] + list(_layouts(operands))
    layouts += [None if x is None else _layouts([x])[0] for x in d_operands]
    addresses = [x.data_ptr() for x in (*tensors, *operands, *d_operands) if x is not None]
    if device.type == "cpu":
        context = _library.context_for(_library.CPU, 0, _threads())
        return Call((_library.CPU, 0), context, layouts, options, addresses, backward, len(operands))
    if (_library.CUDA, device.index, 0) not in _library._contexts and torch.cuda.is_current_stream_capturing():
        raise NotReady("the first call on a GPU cannot be captured into a CUDA graph: call once before the capture")
    return Call((_library.CUDA, device.index), _library.context_for(_library.CUDA, device.index), layouts, options, addresses,
                backward, len(operands), _current_stream(device.index))  # fmt: skip


def _results(q):
    """Returns the output and the log-sum-exp as meta tensors, which have a layout but no memory."""
    return torch.empty_like(q, device="meta"), torch.empty(q.shape[:-1], dtype=torch.float32, device="meta")


def _means(device):
    """Returns what a call needs of its device: a function of (shape, strides, dtype) that allocates, one of the
    device's number that returns the current stream, and the number."""

    def empty(shape, strides, dtype):
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    if device.type == "cpu":
        return _empty_on_cpu or empty, lambda _: 0, 0
    number = device.index
    if _empty_on_gpu is None:
        return empty, _current_stream, number
    if torch.cuda.device_count() == 1:
        return _empty_on_gpu, _current_stream, number
    return lambda *layout: (_empty_on_gpu if _current_device() == number else empty)(*layout), _current_stream, number


class Plan:
    """Attention on tensors of one layout with one set of options: run(q, k, v, operands) returns the output, in the
    layout of q, and the log-sum-exp."""

    __slots__ = ("call", "empty", "options", "run")

    def __init__(self, q, k, v, options, operands=()):
        out, lse = _results(q)
        call = _prepared((q, k, v, out, lse), options, operands=operands)
        empty, stream, number = _means(q.device)
        shape, strides, dtype = tuple(q.shape), out.stride(), q.dtype
        rows, row_strides, single = tuple(lse.shape), lse.stride(), torch.float32
        pack, size, handle = call.pack, call.size, call.handle
        needed = call.workspace_bytes if q.is_cuda else 0  # the CPU uses the context's own workspace

        def run(q, k, v, operands=()):
            out, lse = empty(shape, strides, dtype), empty(rows, row_strides, single)
            workspace = empty((needed,), (1,), torch.uint8) if needed else None
            others = [x.data_ptr() for x in operands] if operands else ()
            status = start(pack(size, handle, stream(number), workspace.data_ptr() if needed else 0, needed, q.data_ptr(),
                                k.data_ptr(), v.data_ptr(), out.data_ptr(), lse.data_ptr(), *others))  # fmt: skip
            if status:
                _library.fail(status)
            return out, lse

        self.call, self.empty, self.options, self.run = call, empty, options, run


def plan(q, k, v, scale, causal, window, deterministic, shares_heads=True, refuse=None):
    """Returns the plan of a call without a score function, or the reason of `refuse` against a new one."""
    key = (type(q), q.shape, q.stride(), q.dtype, q.device, type(k), k.shape, k.stride(), k.dtype, k.device, type(v), v.shape,
           v.stride(), v.dtype, v.device, scale, causal, window, deterministic, shares_heads,
           0 if q.is_cuda else _threads())  # fmt: skip
    found = _plans.get(key)
    if found is None:
        reason = refuse(q, k, v) if refuse else None
        if reason is not None:
            return reason
        check_tensors((("q", q), ("k", k), ("v", v)))
        check_shapes(q.shape, k.shape, v.shape, shares_heads)
        found = _add_plan(key, q, k, v, Options(scale, causal, window, deterministic))
    return found


def forward(q, k, v, scale, causal, window):
    """Returns the output, in the layout of q, and the log-sum-exp."""
    return plan(q, k, v, scale, causal, window, False).run(q, k, v)


def scored_plan(q, k, v, options, operands):
    """Returns the plan of a call with the score function options.program, which reads these operands."""
    key = (q.shape, q.stride(), k.shape, k.stride(), v.shape, v.stride(), q.dtype, q.device, options.scale, options.causal,
           options.window, options.deterministic, options.program, _layouts(operands),
           0 if q.is_cuda else _threads())  # fmt: skip
    found = _plans.get(key)
    return _add_plan(key, q, k, v, options, operands) if found is None else found


def _add_plan(key, q, k, v, options, operands=()):
    """Makes a plan. If gradients are needed, their kernels are compiled concurrently."""
    wanted = tuple(getattr(x, "tensor", x).requires_grad for x in operands)  # Diagonals wrap a tensor
    wants = q.requires_grad or k.requires_grad or v.requires_grad or any(wanted)
    ahead = _start_ahead(q, k, v, options, operands, wanted) if wants and torch.is_grad_enabled() else None
    made = _plans.add(key, Plan(q, k, v, options, operands))
    if ahead is not None:
        _ahead.add(made, ahead)
    return made


class Gradient:
    """The gradients of a plan for tensors of one layout: run(q, k, v, out, lse, d_out, operands) returns those of q, k
    and v, in their layouts, and those of the operands that need one, else None."""

    __slots__ = ("call", "run")

    def __init__(self, q, k, v, out, lse, d_out, options, operands=(), wanted=()):
        results = [torch.empty_like(x, device="meta") for x in (q, k, v)]
        sums = [torch.empty(getattr(x, "sum_shape", x.shape), dtype=getattr(x, "sum_dtype", x.dtype), device="meta")
                if want else None for x, want in zip(operands, wanted)]  # fmt: skip
        call = _prepared((q, k, v, out, lse, d_out, *results), options, True, operands, sums)
        empty, stream, number = _means(q.device)
        shape, keys, dtype = tuple(q.shape), tuple(k.shape), q.dtype
        q_strides, k_strides, v_strides = (x.stride() for x in results)
        sum_layouts = [None if x is None else (tuple(x.shape), x.stride(), x.dtype) for x in sums]
        pack, size, handle = call.pack, call.size, call.handle
        needed = call.workspace_bytes if q.is_cuda else 0

        def run(q, k, v, out, lse, d_out, operands=()):
            d_q, d_k, d_v = empty(shape, q_strides, dtype), empty(keys, k_strides, dtype), empty(keys, v_strides, dtype)
            workspace = empty((needed,), (1,), torch.uint8) if needed else None
            sums = others = ()
            if operands:
                sums = [None if layout is None else empty(*layout) for layout in sum_layouts]
                others = [x.data_ptr() for x in (*operands, *sums) if x is not None]
            status = start(pack(size, handle, stream(number), workspace.data_ptr() if needed else 0, needed, q.data_ptr(),
                                k.data_ptr(), v.data_ptr(), out.data_ptr(), lse.data_ptr(), d_out.data_ptr(),
                                d_q.data_ptr(), d_k.data_ptr(), d_v.data_ptr(), *others))  # fmt: skip
            if status:
                _library.fail(status)
            return d_q, d_k, d_v, *sums

        self.call, self.run = call, run


class _Ahead(threading.Thread):
    """Makes the Gradient of a new plan while the plan is made and run, for a gradient in the layout of the output.
    Python waits for such threads at exit, as nothing else can stop a compiler."""

    def __init__(self, q, k, v, options, operands, wanted):
        super().__init__(name="ridgeline-backward")
        out, lse = _results(q)
        self.key = _gradient_key(None, out, q, k, v, out, lse, operands, wanted)
        self.gradient, self._arguments = None, (q, k, v, out, lse, out, options, operands, wanted)

    def run(self):
        try:
            self.gradient = Gradient(*self._arguments)
        except Exception:  # the backward then makes it, and raises the error
            pass
        del self._arguments


def _compiles(device):
    """Whether a new call on this device compiles kernels, and may do so now."""
    return device.type == "cuda" and not torch.cuda.is_current_stream_capturing()


def _start_ahead(q, *others):
    if not _compiles(q.device):
        return None
    made = _Ahead(q, *others)
    try:
        made.start()
    except RuntimeError:  # no thread could be started
        return None
    return made


def _made_ahead(plan, key):
    """Returns the Gradient that a thread has made, or None: no thread, another layout, or a failure."""
    ahead = _ahead.pop(plan, None)
    if ahead is None or ahead.key[1:] != key[1:]:
        return None
    ahead.join()
    return ahead.gradient


def _gradient_key(plan, d_out, q, k, v, out, lse, operands, wanted):
    key = (plan, d_out.stride(), q.stride(), k.stride(), v.stride(), out.stride(), lse.stride(), wanted)
    return key + _layouts(operands) if operands else key


def gradients(plan, d_out, q, k, v, out, lse, operands=(), wanted=()):
    """Returns the gradients for a run of a plan. Layouts may differ from the run's if hooks moved saved tensors."""
    if d_out.is_neg():
        d_out = d_out.resolve_neg()
    key = _gradient_key(plan, d_out, q, k, v, out, lse, operands, wanted)
    found = _gradients.get(key)
    if found is None:
        if 0 in d_out.stride() and not d_out.is_contiguous():  # such as the gradient of a sum, one expanded element
            return gradients(plan, d_out.contiguous(), q, k, v, out, lse, operands, wanted)
        check_tensors((("q", q), ("k", k), ("v", v), ("out", out), ("the gradient of out", d_out)))
        made = _made_ahead(plan, key) or Gradient(q, k, v, out, lse, d_out, plan.options, operands, wanted)
        found = _gradients.add(key, made)
    return found.run(q, k, v, out, lse, d_out, operands)


def backward(d_out, q, k, v, out, lse, scale, causal, window, deterministic):
    """Returns the gradients of q, k and v."""
    if d_out.shape != q.shape or d_out.dtype != q.dtype or d_out.device != q.device or out.shape != q.shape:
        check_tensors((("q", q), ("the gradient of out", d_out), ("out", out)))
        raise InvalidArgument(f"q, out and its gradient have shapes {tuple(q.shape)}, {tuple(out.shape)} and "
                              f"{tuple(d_out.shape)}: give them the same")  # fmt: skip
    return gradients(plan(q, k, v, scale, causal, window, deterministic), d_out, q, k, v, out, lse)
