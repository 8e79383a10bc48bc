"""Functions of single scores, f(s, b, h, i, j), traced into the nodes of the C interface.

    slopes = torch.tensor([...], requires_grad=True)                   # one per head
    ridgeline.attention(q, k, v, score=lambda s, b, h, i, j: s + slopes[h] * (j - i))

s is the score, b, h, i and j are the positions of batch, head, query and key. Arithmetic, comparisons, & | ~, and the
functions below build an expression, as do torch's and numpy's functions of the same names. Tensors that the function
reads become operands, with gradients: whole ones, broadcast against [batch, heads, queries, keys], or `table[h, i]` at
positions. A table that is read at a computed index, or a position that is divided with //, is first materialised in
memory, for all scores whose values may differ.
"""

import math
import sys

from .errors import InvalidArgument, Unsupported, WrongType

# Names of torch's and numpy's functions -> rl_score_op.
_SCORE, _CONSTANT, _POSITION, _OPERAND, _INT_OPERAND, _BOOL_OPERAND = 0, 1, 2, 6, 7, 8
_UNARY = {"negate": 16, "exp": 17, "log": 18, "sqrt": 19, "rsqrt": 20, "sin": 21, "cos": 22, "tanh": 23, "sigmoid": 24,
          "abs": 25}  # fmt: skip
_BINARY = {"add": 32, "subtract": 33, "multiply": 34, "divide": 35, "maximum": 36, "minimum": 37}
_COMPARE = {"less": 48, "less_equal": 49, "equal": 50, "not_equal": 51, "greater": 52, "greater_equal": 53}
_LOGIC = {"and": 64, "or": 65, "not": 66}
_WHERE = 67
_KNOWN = {**_UNARY, **_BINARY, **_COMPARE, **_LOGIC}
_ONLY_POSITIONS = ("floor_divide", "remainder")  # the kernels have no such operations
_ALIASES = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "true_divide": "divide", "truediv": "divide",
    "neg": "negate", "negative": "negate", "absolute": "abs", "fmax": "maximum", "fmin": "minimum", "max": "maximum",
    "min": "minimum", "lt": "less", "le": "less_equal", "eq": "equal", "ne": "not_equal", "gt": "greater",
    "ge": "greater_equal", "logical_and": "and", "bitwise_and": "and", "logical_or": "or", "bitwise_or": "or",
    "logical_not": "not", "bitwise_not": "not", "invert": "not", "mod": "remainder", "floordiv": "floor_divide",
}  # fmt: skip
_REFLECTED = {"radd": "add", "rsub": "subtract", "rmul": "multiply", "rtruediv": "divide", "rdiv": "divide",
              "rfloordiv": "floor_divide", "rmod": "remainder", "rand": "and", "ror": "or"}  # fmt: skip


TABLES = "read a list at it as torch.tensor(list)[h], a numpy array as ridgeline.score.operand(array)[h]"


class Expression:
    """A number or a condition for every score. `positions` is true if it reads only b, h, i, j and constants."""

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
        raise InvalidArgument(f"a score or position has no value yet: {TABLES}")

    def __float__(self):
        raise InvalidArgument("a score or position has no value yet: use functions of torch, numpy or ridgeline.score, not of math")

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
    """Handles a function of torch or numpy that was called with an expression."""
    if name in ("clamp", "clip"):
        return clamp(*args, **kwargs or {})
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
    if name == "square" and len(args) == 1:
        return apply("multiply", args[0], args[0])
    if name == "exp2" and len(args) == 1:
        return exp(apply("multiply", args[0], math.log(2)))
    if name == "relu" and len(args) == 1:
        return maximum(args[0], 0)
    if name == "pow" and len(args) == 2 and args[1] == 2:
        return apply("multiply", args[0], args[0])
    known = _KNOWN.get(name)
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
    """Returns x where the condition holds, else y."""
    condition, x, y = (_expression(each) for each in (condition, x, y))
    if not condition.condition:
        raise InvalidArgument("where() needs a condition first: compare the number")
    if x.condition != y.condition:
        raise InvalidArgument("where() chooses between two numbers or two conditions")
    positions = condition.positions and x.positions and y.positions
    return Expression(_WHERE, (condition, x, y), None, x.condition, positions)


def clamp(x, min=None, max=None):
    """Returns x, but at least `min` and at most `max`."""
    x = x if min is None else maximum(x, min)
    return x if max is None else minimum(x, max)


def _function(name):
    def function(*args):
        return apply(name, *args)

    function.__name__ = name
    return function


_NAMES = ("exp", "exp2", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "abs", "maximum", "minimum")
exp, exp2, log, sqrt, rsqrt, sin, cos, tanh, sigmoid, abs, maximum, minimum = map(_function, _NAMES)
for _name in _NAMES:
    setattr(Expression, _name, _operator(_name))  # s.tanh(), as on tensors
Expression.clamp = clamp


class Operand:
    """A tensor that a score function reads. Only numpy arrays need it: operand(table)[h, i]."""

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


def _python_number(x):
    """Returns numpy's scalars, which also look like arrays, as Python's."""
    numpy = sys.modules.get("numpy")
    return x.item() if numpy is not None and isinstance(x, numpy.generic) else x


def _is_tensor(x):
    return hasattr(x, "shape") and hasattr(x, "dtype") and hasattr(x, "__getitem__")


def _expression(x):
    if isinstance(x, Expression):
        return x
    if isinstance(x, Operand):
        x = x.tensor
    x = _python_number(x)
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
