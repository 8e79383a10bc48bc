"""Functions of single scores, f(s, b, h, i, j), traced into the nodes of the C interface.

    slopes = torch.tensor([...], requires_grad=True)                   # one per head
    ridgeline.attention(q, k, v, score=lambda s, b, h, i, j: s + slopes[h] * (j - i))

s is the score, b, h, i and j are the positions of batch, head, query and key. Arithmetic, comparisons, & | ~, and the
functions below build an expression, as do torch's and numpy's functions of the same names. Tensors that the function
reads become operands, with gradients: whole ones, broadcast against [batch, heads, queries, keys], or `table[h, i]` at
positions. A table that is read at a computed place, or a position that is divided with //, is laid out in memory first,
for all scores that it tells apart.
"""

import builtins
import ctypes
import math
import sys
import threading

from . import _library
from ._calls import MOST_OPERANDS, strided
from .errors import InvalidArgument, Unsupported, WrongType

_AXES = ("batch", "heads", "queries", "keys")

# Names of torch's and numpy's functions -> rl_score_op.
_SCORE, _CONSTANT, _POSITION, _OPERAND, _INT_OPERAND, _BOOL_OPERAND = 0, 1, 2, 6, 7, 8
_UNARY = {"negate": 16, "exp": 17, "log": 18, "sqrt": 19, "rsqrt": 20, "sin": 21, "cos": 22, "tanh": 23, "sigmoid": 24,
          "abs": 25}  # fmt: skip
_BINARY = {"add": 32, "subtract": 33, "multiply": 34, "divide": 35, "maximum": 36, "minimum": 37}
_COMPARE = {"less": 48, "less_equal": 49, "equal": 50, "not_equal": 51, "greater": 52, "greater_equal": 53}
_LOGIC = {"and": 64, "or": 65, "not": 66}
_WHERE = 67
_ONLY_POSITIONS = ("floor_divide", "remainder")  # the kernels have no such operation
_ALIASES = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "true_divide": "divide", "truediv": "divide",
    "neg": "negate", "negative": "negate", "absolute": "abs", "fmax": "maximum", "fmin": "minimum", "max": "maximum",
    "min": "minimum", "lt": "less", "le": "less_equal", "eq": "equal", "ne": "not_equal", "gt": "greater",
    "ge": "greater_equal", "logical_and": "and", "bitwise_and": "and", "logical_or": "or", "bitwise_or": "or",
    "logical_not": "not", "bitwise_not": "not", "invert": "not", "mod": "remainder", "floordiv": "floor_divide",
}  # fmt: skip
_REFLECTED = {"radd": "add", "rsub": "subtract", "rmul": "multiply", "rtruediv": "divide", "rdiv": "divide",
              "rfloordiv": "floor_divide", "rmod": "remainder", "rand": "and", "ror": "or"}  # fmt: skip


class Expression:
    """A number or a condition for every score. `positions` is true where nothing but b, h, i, j and constants is read."""

    __slots__ = ("condition", "inputs", "op", "positions", "value")
    __hash__ = object.__hash__

    def __init__(self, op, inputs=(), value=None, condition=False, positions=False):
        self.op, self.inputs, self.value = op, inputs, value
        self.condition, self.positions = condition, positions

    def __bool__(self):
        raise InvalidArgument(
            "a condition of a score function has no single value: use & | ~ and ridgeline.score.where(), not `and`, `or`, "
            "`not`, `if` or a chain of comparisons"
        )

    def __index__(self):
        raise InvalidArgument("numpy's arrays are read at positions through ridgeline.score.operand(table)[h]")

    def __iter__(self):
        raise InvalidArgument("a score or position is a single number and cannot be iterated over")

    __len__ = __iter__

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return _foreign(getattr(function, "__name__", str(function)), args, kwargs)

    def __array_ufunc__(self, function, method, *args, **kwargs):
        if method != "__call__":
            raise Unsupported(f"score functions do not know numpy.{function.__name__}.{method}")
        return _foreign(function.__name__, args, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return _foreign(function.__name__, args, kwargs)


def _foreign(name, args, kwargs):
    """A function of torch or numpy that was called with an expression."""
    if kwargs:
        raise Unsupported(f"score functions take no {', '.join(kwargs)} in {name}()")
    name = name.strip("_")
    if name == "getitem":
        return Operand(args[0])[args[1]]
    if name in _REFLECTED:
        return apply(_REFLECTED[name], args[1], args[0])
    return apply(name, *args)


def apply(name, *args):
    name = _ALIASES.get(name, name)
    if name == "where" and len(args) == 3:
        return where(*args)
    if name == "clamp" and len(args) == 3:
        return minimum(maximum(args[0], args[1]), args[2])
    if name == "square" and len(args) == 1:
        return apply("multiply", args[0], args[0])
    if name == "relu" and len(args) == 1:
        return maximum(args[0], 0)
    if name == "pow" and len(args) == 2 and args[1] == 2:
        return apply("multiply", args[0], args[0])
    known = {**_UNARY, **_BINARY, **_COMPARE, **_LOGIC}.get(name)
    inputs = tuple(_expression(x) for x in args)
    positions = all(x.positions for x in inputs)
    count = 1 if name in _UNARY or name == "not" else 2
    if (known is None and name not in _ONLY_POSITIONS) or len(inputs) != count:
        raise Unsupported(f"score functions do not know {name}() of {len(inputs)}: ridgeline.score lists what they know")
    if name in _LOGIC:
        for x in inputs:
            if not x.condition:
                raise InvalidArgument(f"{name} of a number: compare it first")
        return Expression(known, inputs, None, True, positions)
    if name in _ONLY_POSITIONS and not positions:
        raise Unsupported(f"{name} is served for positions (b, h, i, j) only, not for scores or tensors")
    if name not in _COMPARE and any(x.condition for x in inputs):
        raise InvalidArgument(f"{name} of a condition: make it a number with where(condition, 1, 0)")
    return Expression(name if known is None else known, inputs, None, name in _COMPARE, positions)


def _operator(name, reflected=False):
    if reflected:
        return lambda self, other: apply(name, other, self)
    return lambda self, *others: apply(name, self, *others)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "pow"):
    setattr(Expression, f"__{_name}__", _operator(_name))
    if _name != "pow":
        setattr(Expression, f"__r{_name}__", _operator(_name, True))
for _name in ("neg", "abs", "lt", "le", "eq", "ne", "gt", "ge", "invert"):
    setattr(Expression, f"__{_name}__", _operator(_name))


def where(condition, x, y):
    """x where the condition holds, else y."""
    condition, x, y = (_expression(each) for each in (condition, x, y))
    if not condition.condition:
        raise InvalidArgument("where() needs a condition first: compare the number")
    if x.condition != y.condition:
        raise InvalidArgument("where() chooses between two numbers or two conditions")
    positions = condition.positions and x.positions and y.positions
    return Expression(_WHERE, (condition, x, y), None, x.condition, positions)


def _function(name):
    def function(*args):
        return apply(name, *args)

    function.__name__ = name
    return function


exp, log, sqrt, rsqrt, sin, cos, tanh, sigmoid, abs, maximum, minimum = (
    _function(name)
    for name in ("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "abs", "maximum", "minimum")
)


class Operand:
    """A tensor that a score function reads. Only numpy's arrays have to be named: operand(table)[h, i]."""

    __array_ufunc__ = None
    __slots__ = ("tensor",)

    def __init__(self, tensor):
        self.tensor = tensor

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        if len(index) != len(self.tensor.shape):
            raise InvalidArgument(
                f"a table of shape {tuple(self.tensor.shape)} is read at {len(index)} positions: give one for each axis"
            )
        index = tuple(_expression(x) for x in index)
        if not all(x.positions and not x.condition for x in index):
            raise Unsupported("a table is read at a place that depends on scores or tensors: only positions are served")
        return Expression(_OPERAND, (), (self.tensor, index), _is_bool(self.tensor))


operand = Operand


def _is_bool(tensor):
    return str(tensor.dtype) in ("bool", "torch.bool")


def _on_torch(x):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _is_tensor(x):
    return hasattr(x, "shape") and hasattr(x, "dtype") and hasattr(x, "__getitem__")


def _expression(x):
    if isinstance(x, Expression):
        return x
    if isinstance(x, Operand):
        x = x.tensor
    if _is_tensor(x):
        return Expression(_OPERAND, (), (x, None), _is_bool(x))
    if isinstance(x, bool):
        one = Expression(_CONSTANT, (), 1.0, False, True)
        return apply("equal", one, 1.0 if x else 0.0)
    try:
        value = float(x)
    except (TypeError, ValueError, OverflowError):
        raise WrongType(f"{x!r} in a score function: use numbers, tensors, and what the function gets") from None
    if math.isnan(value):
        raise InvalidArgument("a constant of a score function is no number (NaN)")
    return Expression(_CONSTANT, (), value, False, True)


class _Laid:
    """Operands of one call, as [batch, heads, queries, keys] with 1 where all share a value."""

    def __init__(self, sizes, like):
        self.sizes, self.like = sizes, like
        self.tensors, self._known, self._keep = [], {}, []

    def number(self, tensor, index):
        """The number of an operand, and the op that reads it."""
        key = (id(tensor), None if index is None else tuple(_key(x) for x in index))
        if key not in self._known:
            self._keep.append(tensor)
            laid = self._lay(tensor, index)
            if len(self.tensors) == MOST_OPERANDS:
                raise Unsupported(f"a score function reads more than {MOST_OPERANDS} tensors")
            self.tensors.append(laid)
            self._known[key] = len(self.tensors) - 1
        at = self._known[key]
        kind = str(self.tensors[at].dtype).split(".")[-1]
        return at, {"int32": _INT_OPERAND, "bool": _BOOL_OPERAND}.get(kind, _OPERAND)

    def _lay(self, tensor, index):
        if _on_torch(tensor) != _on_torch(self.like):
            raise WrongType("a score function reads tensors of the library that q is of: torch.from_numpy makes PyTorch's")
        if index is None:
            if len(tensor.shape) > 4:
                raise InvalidArgument(f"a tensor of shape {tuple(tensor.shape)} in a score function has more than 4 axes")
            laid = tensor[(None,) * (4 - len(tensor.shape))] if len(tensor.shape) < 4 else tensor
        elif all(x.op == _POSITION or x.op == _CONSTANT for x in index) and self._apart(index):
            laid = self._view(tensor, index)
        else:
            laid = self._gathered(tensor, index)
        return _as_int32(laid) if str(laid.dtype).split(".")[-1] in ("int64", "int16", "int8", "uint8") else laid

    @staticmethod
    def _apart(index):
        axes = [x.value for x in index if x.op == _POSITION]
        return len(axes) == len(set(axes))

    def _view(self, tensor, index):
        """table[h, i] as it lies: axes in order, those that are not read of size 1."""
        picked, axes = [], []
        for x, size in zip(index, tensor.shape):
            if x.op == _CONSTANT:
                picked.append(_whole(x.value))
            else:
                axis = x.value
                if size < self.sizes[axis]:
                    raise InvalidArgument(
                        f"a table of shape {tuple(tensor.shape)} is read at {self.sizes[axis]} {_AXES[axis]}: it has {size}"
                    )
                picked.append(slice(0, self.sizes[axis]))
                axes.append(axis)
        try:
            tensor = tensor[tuple(picked)]
        except IndexError as problem:
            raise InvalidArgument(f"a table in a score function: {problem}") from None
        order = sorted(range(len(axes)), key=axes.__getitem__)
        if axes:
            tensor = tensor.permute(order) if hasattr(tensor, "permute") else tensor.transpose(order)
        return tensor[tuple(slice(None) if axis in axes else None for axis in range(4))]

    def _gathered(self, tensor, index):
        places = _places(index, tuple(tensor.shape), self.sizes, self.like)
        return tensor[places]

    def evaluated(self, expression):
        """An expression of positions as an integer operand."""
        return self.number_of_new(_as_int32(_evaluate(expression, self.sizes, self.like)))

    def number_of_new(self, tensor):
        self._keep.append(tensor)
        return self.number(tensor, None)


def _whole(value):
    if value != int(value):
        raise InvalidArgument(f"a table is read at {value}: use whole numbers")
    return int(value)


def _as_int32(x):
    return x.int() if _on_torch(x) else x.astype("int32")


_MOST_PLACES = 8
_known_places = {}  # matrices of places are made and checked once for each table, as a GPU has to be waited for


def _places(index, shape, sizes, like):
    key = (tuple(_key(x) for x in index), shape, sizes, str(getattr(like, "device", "cpu")), type(like).__module__)
    found = _known_places.get(key)
    if found is None:
        found = []
        for x, size in zip(index, shape):
            at = _evaluate(x, sizes, like)
            if int(at.min()) < -size or int(at.max()) >= size:
                raise InvalidArgument(
                    f"a table of shape {shape} is read at {int(at.min())} to {int(at.max())} of an axis of {size}"
                )
            found.append(at)
        found = tuple(found)
        if len(_known_places) >= _MOST_PLACES:
            _known_places.clear()
        _known_places[key] = found
    return found


def _key(x):
    return (x.op, x.value, tuple(_key(each) for each in x.inputs))


def _evaluate(x, sizes, like):
    """An expression of positions in whole numbers, on aranges along its axes."""
    library = sys.modules["torch" if _on_torch(like) else type(like).__module__.split(".")[0]]

    def array(values, axis=None):
        made = library.arange(values, device=like.device) if _on_torch(like) else library.arange(values)
        return made.reshape([-1 if at == axis else 1 for at in range(4)])

    def run(x):
        if x.op == _CONSTANT:
            return _whole(x.value)
        if x.op == _POSITION:
            return array(sizes[x.value], x.value)
        inputs = [run(each) for each in x.inputs]
        operation = _WHOLE.get(x.op)
        if operation is None:
            raise Unsupported("a table is read at a place that is computed with more than whole numbers")
        if x.op in (_BINARY["maximum"], _BINARY["minimum"], _WHERE):
            inputs = [array(1) + each if isinstance(each, int) else each for each in inputs]
            return getattr(library, {_WHERE: "where", 36: "maximum", 37: "minimum"}[x.op])(*inputs)
        return operation(*inputs)

    made = run(x)
    return array(1) + made if isinstance(made, int) else made


_WHOLE = {
    16: lambda x: -x, 25: builtins.abs,
    32: lambda x, y: x + y, 33: lambda x, y: x - y, 34: lambda x, y: x * y, 36: None, 37: None, _WHERE: None,
    "floor_divide": lambda x, y: x // y, "remainder": lambda x, y: x % y, 48: lambda x, y: x < y,
    49: lambda x, y: x <= y, 50: lambda x, y: x == y, 51: lambda x, y: x != y, 52: lambda x, y: x > y,
    53: lambda x, y: x >= y, 64: lambda x, y: x & y, 65: lambda x, y: x | y, 66: lambda x: ~x,
}  # fmt: skip


def _nodes(result, laid):
    """The nodes that lead to the result, each after those that it reads."""
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
    """Takes `i >= j` and `i - j < window` out of where(condition, x, -inf) and puts them into `mask`, which has `causal`
    and `window`: the kernels skip tiles that these leave empty."""
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
    """The window of `i - j < window` or `i - j <= window - 1`."""
    if x.op not in (_COMPARE["less"], _COMPARE["less_equal"]) or x.inputs[1].op != _CONSTANT:
        return None
    distance, keys = x.inputs[0], x.inputs[1].value
    if distance.op != _BINARY["subtract"] or not (_is(distance.inputs[0], 2) and _is(distance.inputs[1], 3)):
        return None
    keys += x.op == _COMPARE["less_equal"]
    return int(keys) if keys == int(keys) and keys >= 1 else None


_programs = {}
_lock = threading.Lock()


def _program(nodes):
    """The compiled function of these nodes. The library compiles kernels once for each, so it is kept."""
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


def trace(score, sizes, like, mask):
    """Calls score(s, b, h, i, j) once. Gives the program and its operands; takes a mask out where it can."""
    if not callable(score):
        raise WrongType(f"score is {score!r}: pass a function of s, b, h, i and j")
    positions = [Expression(_POSITION, (), axis, False, True) for axis in range(4)]
    result = _expression(score(Expression(_SCORE), *positions))
    if result.condition:
        raise InvalidArgument("the score function gives a condition: use where(condition, s, -math.inf)")
    laid = _Laid(sizes, like)
    nodes = _nodes(_split_mask(result, mask), laid)
    return _program(nodes), laid.tensors


def sizes_of(q, k):
    """[batch, heads, queries, keys] of the scores."""
    return (*strided(q, q)[0][:3], k[-2])


def trace_arrays(score, q, k, mask):
    """trace() for arrays that are no PyTorch tensors."""
    for name, x in (("q", q), ("k", k)):
        if not hasattr(x, "shape") or not 2 <= len(x.shape) <= 4:
            raise WrongType(f"{name} is {type(x).__name__}: pass an array of 2 to 4 axes")
    return trace(score, sizes_of(tuple(q.shape), tuple(k.shape)), q, mask)
