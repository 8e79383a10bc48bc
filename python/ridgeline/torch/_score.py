"""Attention with a score function on PyTorch tensors, with gradients of the tensors that the function reads."""

import sys
import types

import torch
from torch.autograd import forward_ad

from .._calls import Kept, Options
from .._operands import Diagonals, lay
from .._options import check_shapes
from .._trace import sizes_of, trace
from ..errors import Unsupported
from ..score import Expression, _foreign
from . import _attention, _kernels


class _Tracing(torch.overrides.TorchFunctionMode):
    """Intercepts `table[h]` for ordinary tensors, and records whether the function reads values of tensors."""

    def __init__(self):
        super().__init__()
        self.looked = False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name == "__getitem__":
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(x, Expression) for x in index):
                return _foreign("getitem", args, None)
        # Shapes and dtypes are part of the key of a trace, and operations with an expression become expressions.
        if name != "__get__" and not any(isinstance(x, Expression) for x in args):
            self.looked = True
        return function(*args, **(kwargs or {}))


_KNOWN_LIBRARIES = ("torch", "math", "ridgeline", "builtins")
_NUMBERS = (int, float, bool, str, type(None))
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_MOST_TRACES = 256
_traces = {}  # key of code and captured values -> (traced, index of each operand among the captured values)


def _captured(score):
    """Returns the values that a plain function captures, and a key of everything that its trace depends on. Returns two
    Nones if that cannot be determined: a function that calls others, or reads attributes of objects."""
    if type(score) is not types.FunctionType or score.__kwdefaults__:
        return None, None
    code = score.__code__
    if any(isinstance(constant, types.CodeType) for constant in code.co_consts):
        return None, None
    try:
        values = [cell.cell_contents for cell in score.__closure__ or ()]
    except ValueError:  # a captured name without a value yet
        return None, None
    values += score.__defaults__ or ()
    outside = score.__globals__
    values += [outside[name] for name in code.co_names if name in outside]
    key, first = [code], {}
    for i, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            key.append((first.setdefault(id(value), i), value.shape, value.dtype))
        elif isinstance(value, _NUMBERS):
            key.append((type(value), repr(value)))
        elif isinstance(value, types.ModuleType):
            if value.__name__.split(".")[0] not in _KNOWN_LIBRARIES:
                return None, None
            key.append(value.__name__)
        elif isinstance(value, _FUNCTIONS) and str(value.__module__).split(".")[0] in _KNOWN_LIBRARIES:
            key.append(id(value))
        else:
            return None, None
    return values, key


def _trace(score, causal, window):
    """Returns the traced function, and its operands as (tensor, index)."""
    values, key = _captured(score)
    if key is not None:
        key = (*key, causal, window)
        kept = _traces.get(key)
        if kept is not None:
            traced, numbers = kept
            return traced, [(None if number is None else values[number], index)
                            for number, (_, index) in zip(numbers, traced.operands)]  # fmt: skip
    with _Tracing() as seen:
        traced = trace(score, causal, window)
    operands = list(traced.operands)
    if key is not None and not seen.looked:
        places = {id(value): i for i, value in reversed(list(enumerate(values)))}
        if all(tensor is None or id(tensor) in places for tensor, _ in operands):
            numbers = [None if tensor is None else places[id(tensor)] for tensor, _ in operands]
            traced.operands = [(None, index) for _, index in operands]  # so that no tensor is kept alive
            if len(_traces) >= _MOST_TRACES:
                _traces.clear()
            _traces[key] = traced, numbers
    return traced, operands


class _ScoredAttention(torch.autograd.Function):
    """Attention with a score function. `laid` are the operands in the kernels' layout, `tensors` the originals."""

    @staticmethod
    def forward(ctx, plan, laid, q, k, v, *tensors):
        out, lse = plan.run(q, k, v, laid)
        ctx.save_for_backward(q, k, v, out, lse, *tensors)
        ctx.plan = plan
        ctx.diagonals = [(x.index, x.sizes) if type(x) is Diagonals else None for x in laid]
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)  # the log-sum-exp has no gradient
        return out, lse

    @staticmethod
    def backward(ctx, d_out, _):
        if d_out is None:
            return (None,) * len(ctx.needs_input_grad)
        if torch.is_grad_enabled():
            return _attention.differentiated_once(lambda: _gradients(ctx, d_out), d_out, *ctx.saved_tensors)
        return _gradients(ctx, d_out)


def _gradients(ctx, d_out):
    q, k, v, out, lse, *tensors = ctx.saved_tensors
    laid = [x if read is None else Diagonals(x, *read) for x, read in zip(tensors, ctx.diagonals)]
    d_q, d_k, d_v, *sums = _kernels.gradients(ctx.plan, d_out, q, k, v, out, lse, laid, ctx.needs_input_grad[5:])
    sums = [x.gradient(d) if type(x) is Diagonals and d is not None else d for x, d in zip(laid, sums)]
    return None, None, d_q, d_k, d_v, *sums


_apply = super(torch.autograd.Function, _ScoredAttention).apply  # see _attention.py
_known_sizes = Kept()


def _sizes(q, k, v, enable_gqa):
    """Checks the tensors, and returns [batch, heads, queries, keys] of their scores."""
    key = (q.shape, k.shape, v.shape, q.dtype, k.dtype, v.dtype, q.device, k.device, v.device, type(q), type(k), type(v),
           True if enable_gqa else False)  # fmt: skip
    found = _known_sizes.get(key)
    if found is None:
        _kernels.check_tensors((("q", q), ("k", k), ("v", v)))
        check_shapes(q.shape, k.shape, v.shape, enable_gqa)
        found = _known_sizes.add(key, sizes_of(q.shape, k.shape))
    return found


def scored(score, q, k, v, scale, causal, window, deterministic, enable_gqa):
    """Returns the output and the log-sum-exp. Tensors must not be negated views."""
    try:
        sizes = _sizes(q, k, v, enable_gqa)
    except (RuntimeError, NotImplementedError, AttributeError):
        _kernels.check_tensors((("q", q), ("k", k), ("v", v)))  # has a clearer message than PyTorch
        raise
    traced, recipes = _trace(score, causal, window)
    laid = [lay(tensor, index, sizes, q) for tensor, index in recipes]
    for i, x in enumerate(laid):
        _kernels.check_operand(x, f"tensor {i} of the score function", q.device)
    tensors = [x.tensor if type(x) is Diagonals else x for x in laid]
    if forward_ad._current_level >= 0:
        _attention.refuse_transforms(*tensors)
    plan = _kernels.scored_plan(q, k, v, Options(scale, traced.causal, traced.window, deterministic, traced.program), laid)
    if torch.is_grad_enabled():
        if any(x.requires_grad for x in (q, k, v, *tensors)):
            return _apply(plan, laid, q, k, v, *tensors)
    return plan.run(q, k, v, laid)


def _is_traced(*tensors):
    """Whether PyTorch records a graph of operations, or computes no values."""
    proxies, fakes = (sys.modules.get(name) for name in ("torch.fx.experimental.proxy_tensor", "torch._subclasses.fake_tensor"))
    return (_attention.jit_trace() is not None or proxies is not None and proxies.get_proxy_mode() is not None or
            fakes is not None and any(isinstance(x, fakes.FakeTensor) for x in tensors))  # fmt: skip


def _outside(score, q, k, v, *options):
    if _is_traced(q, k, v):
        raise Unsupported("a call with a score function is no op that torch.export, make_fx, torch.jit.trace or a FakeTensorMode "
                          "could record: use torch.compile, which breaks its graph there")  # fmt: skip
    return scored(score, q.resolve_neg(), k.resolve_neg(), v.resolve_neg(), *options)


def __getattr__(name):
    """Makes scored_outside, for calls that are not plain; a compiler breaks its graph for them. It is made on first
    use, because importing PyTorch's compiler takes longer than importing this package."""
    if name != "scored_outside":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    disable = getattr(getattr(torch, "compiler", None), "disable", None)
    globals()[name] = disable(_outside) if disable else _outside
    return globals()[name]
