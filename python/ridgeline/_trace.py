"""Traces a score function, called once with expressions, into a program of the C interface and its operands."""

import ctypes
import math
import threading

from . import _library
from ._calls import Options, strided
from ._operands import Operands, lay
from ._options import MOST_KEYS
from .errors import InvalidArgument, WrongType
from .score import (
    _BINARY,
    _COMPARE,
    _CONSTANT,
    _LOGIC,
    _OPERAND,
    _POSITION,
    _SCORE,
    _WHERE,
    TABLES,
    Expression,
    _expression,
    apply,
    where,
)


def _nodes(result, laid):
    """Returns the nodes that compute the result, each after those that it reads."""
    nodes, numbers = [], {}

    def add(op, inputs=(), value=0.0):
        key = (op, tuple(inputs), value)
        if key not in numbers:
            numbers[key] = len(nodes)
            nodes.append(key)
        return numbers[key]

    seen = {}

    def visit(x):
        if id(x) in seen:
            return seen[id(x)]
        if isinstance(x.op, str):
            at, op = laid.evaluated(x)
            made = add(op, (at,))
        elif x.op == _OPERAND:
            at, op = laid.number(*x.value)
            made = add(op, (at,))
        elif x.op == _CONSTANT:
            made = add(_CONSTANT, (), x.value)
        elif x.op == _POSITION:
            made = add(_POSITION + x.value)
        else:
            made = add(x.op, [visit(each) for each in x.inputs])
        seen[id(x)] = made
        return made

    last = visit(result)
    if last != len(nodes) - 1:  # the result comes last
        nodes.append((_BINARY["add"], (last, add(_CONSTANT, (), 0.0)), 0.0))
    return nodes


def _split_mask(result, mask):
    """Moves `i >= j` and `i - j < window` from where(condition, x, -inf) into `causal` and `window` of `mask`, for
    which the kernels skip empty tiles."""
    hides = result.op == _WHERE and result.inputs[2].op == _CONSTANT and result.inputs[2].value == -math.inf
    if not hides or mask.causal == 2:
        return result
    parts, rest, causal, window = [], [], mask.causal == 1, mask.window
    pending = [result.inputs[0]]
    while pending:
        part = pending.pop()
        if part.op == _LOGIC["and"]:
            pending.extend(part.inputs)
        else:
            parts.append(part)
    for part in parts:
        if _is_causal(part):
            causal = True
        else:
            rest.append(part)
    if not causal:
        return result
    others = []
    for part in rest:
        keys = _window_of(part)
        if keys is None:
            others.append(part)
        else:
            window = keys if window == 0 else min(window, keys)
    mask.causal, mask.window = 1, window
    if not others:
        return result.inputs[1]
    condition = others[0]
    for part in others[1:]:
        condition = apply("and", condition, part)
    return where(condition, *result.inputs[1:])


def _is(x, axis):
    return x.op == _POSITION and x.value == axis


def _is_causal(x):
    if x.op == _COMPARE["greater_equal"]:
        return _is(x.inputs[0], 2) and _is(x.inputs[1], 3)
    return x.op == _COMPARE["less_equal"] and _is(x.inputs[0], 3) and _is(x.inputs[1], 2)


def _window_of(x):
    """Returns the window of `i - j < window` or `i - j <= window - 1`, else None."""
    if x.op not in (_COMPARE["less"], _COMPARE["less_equal"]) or x.inputs[1].op != _CONSTANT:
        return None
    distance, keys = x.inputs[0], x.inputs[1].value
    if distance.op != _BINARY["subtract"] or not (_is(distance.inputs[0], 2) and _is(distance.inputs[1], 3)):
        return None
    keys += x.op == _COMPARE["less_equal"]
    return int(keys) if 1 <= keys <= MOST_KEYS and keys == int(keys) else None  # wider ones hide nothing


_programs = {}
_lock = threading.Lock()


def _after_fork():  # a thread that does not exist here may have held the lock
    global _lock
    _lock = threading.Lock()


_library.forget_after_fork(_after_fork)


def _program(nodes):
    """Returns the library's function of these nodes. It is kept, as kernels are compiled for each function."""
    key = tuple(nodes)
    with _lock:
        if key not in _programs:
            array = (_library.ScoreNode * len(nodes))()
            for at, (op, inputs, value) in zip(array, nodes):
                at.op, at.value = op, value
                for i, number in enumerate(inputs):
                    at.inputs[i] = number
            made = ctypes.c_void_p()
            status = _library.lib.rl_score_function_create(
                ctypes.addressof(array), len(nodes), ctypes.addressof(made)
            )
            if status:
                _library.fail(status)
            _programs[key] = made.value
        return _programs[key]


class Traced:
    """A program, the operands that it reads, and the mask that the kernels apply."""

    def __init__(self, program, operands, mask):
        self.program, self.operands = program, operands
        self.causal, self.window = mask.causal, mask.window


def trace(score, causal=0, window=0):
    """Calls score(s, b, h, i, j) once, and extracts a mask from it if possible."""
    if not callable(score):
        raise WrongType(f"score is {score!r}: pass a function of s, b, h, i and j")
    positions = [Expression(_POSITION, (), axis, False, True) for axis in range(4)]
    try:
        result = _expression(score(Expression(_SCORE), *positions))
    except IndexError as problem:  # numpy's, which knows no index but its own
        raise InvalidArgument(
            f"the score function read an array at a score or position: {problem}. {TABLES.capitalize()}"
        ) from problem
    if result.condition:
        raise InvalidArgument("the score function gives a condition: use where(condition, s, -math.inf)")
    operands, mask = Operands(), Options(causal=causal, window=window)
    nodes = _nodes(_split_mask(result, mask), operands)
    return Traced(_program(nodes), operands.list, mask)


def sizes_of(q, k):
    """Returns [batch, heads, queries, keys] of the scores."""
    return (*strided(q, q)[0][:3], k[-2])


def trace_arrays(score, q, k, options):
    """For arrays other than PyTorch tensors: stores the program in the options, and returns its operands."""
    for name, x in (("q", q), ("k", k)):
        if not hasattr(x, "shape") or not 2 <= len(x.shape) <= 4:
            raise WrongType(f"{name} is {type(x).__name__}: pass an array of 2 to 4 axes")
    traced = trace(score, options.causal, options.window)
    options.program, options.causal, options.window = traced.program, traced.causal, traced.window
    sizes = sizes_of(tuple(q.shape), tuple(k.shape))
    return [lay(tensor, index, sizes, q) for tensor, index in traced.operands]
