"""The tensors that a score function reads, laid out as the kernels want them: [batch, heads, queries, keys] with 1 where all
share a value."""

import builtins
import sys

from ._arrays import namespace
from ._calls import MOST_OPERANDS
from .errors import InvalidArgument, Unsupported, WrongType
from .score import _BINARY, _BOOL_OPERAND, _CONSTANT, _INT_OPERAND, _OPERAND, _POSITION, _UNARY, _WHERE, Expression, _on_torch

_AXES = ("batch", "heads", "queries", "keys")


class Index(tuple):
    """The places at which a table is read. `axes`: of the scores, where these are single positions in their order; else
    None."""

    def __new__(cls, places):
        made = super().__new__(cls, places)
        axes = tuple(x.value for x in made if x.op == _POSITION)
        made.axes = axes if len(axes) == len(made) and list(axes) == sorted(set(axes)) else None
        return made


class Operands:
    """What a function reads, in the order of its numbers: (tensor, index), index None for the whole tensor; or (None,
    expression) for an expression of positions that the kernels cannot compute."""

    def __init__(self):
        self.list, self._known = [], {}

    def number(self, tensor, index):
        """The number of an operand, and the op that reads it."""
        key = id(tensor), None if index is None else tuple(_key(x) for x in index)
        at = self._add(key, (tensor, None if index is None else Index(index)))
        kind = _dtype(tensor)
        return at, _BOOL_OPERAND if kind == "bool" else _INT_OPERAND if "int" in kind else _OPERAND

    def evaluated(self, expression):
        return self._add(_key(expression), (None, expression)), _INT_OPERAND

    def _add(self, key, what):
        if key not in self._known:
            if len(self.list) == MOST_OPERANDS:
                raise Unsupported(f"a score function reads more than {MOST_OPERANDS} tensors")
            self._known[key] = len(self.list)
            self.list.append(what)
        return self._known[key]


def _dtype(x):
    return str(x.dtype).split(".")[-1]


def lay(tensor, index, sizes, like):
    """One operand for scores of these sizes [batch, heads, queries, keys]; `like` is q."""
    if tensor is None:
        return _as_int32(_evaluate(index, sizes, like))
    if _on_torch(tensor) != _on_torch(like):
        raise WrongType("a score function reads tensors of the library that q is of: torch.from_numpy makes PyTorch's")
    if index is None:
        if len(tensor.shape) > 4:
            raise InvalidArgument(f"a tensor of shape {tuple(tensor.shape)} in a score function has more than 4 axes")
        laid = tensor[(None,) * (4 - len(tensor.shape))] if len(tensor.shape) < 4 else tensor
    elif index.axes is not None and _on_torch(tensor) and tuple(tensor.shape) == tuple([sizes[axis] for axis in index.axes]):
        return _whole_table(tensor, index.axes)
    elif all(x.op == _POSITION or x.op == _CONSTANT for x in index) and _apart(index):
        laid = _view(tensor, index, sizes)
    else:
        laid = _diagonals(tensor, index, sizes) if _on_torch(tensor) else None
        if laid is None:
            laid = tensor[_places(index, tuple(tensor.shape), sizes, like)]
    return _as_int32(laid) if "int" in _dtype(laid) and _dtype(laid) != "int32" else laid


def _whole_table(tensor, axes):
    """A tensor that is read at every place of its own, with axes of one element between. 64-bit integers are read where they
    lie, as their low words."""
    shape, strides = [1] * 4, [0] * 4
    for axis, size, stride in zip(axes, tensor.shape, tensor.stride()):
        shape[axis], strides[axis] = size, 2 * stride
    torch = sys.modules["torch"]
    if tensor.dtype == torch.int64 and tensor.stride(-1) == 1:
        words = tensor.view(torch.int32)
        return words.as_strided(shape, strides, words.storage_offset())
    laid = tensor.view(shape)
    return _as_int32(laid) if "int" in _dtype(laid) and laid.dtype != torch.int32 else laid


def _apart(index):
    axes = [x.value for x in index if x.op == _POSITION]
    return len(axes) == len(set(axes))


def _view(tensor, index, sizes):
    """table[h, i] as it lies: axes in order, those that are not read of size 1."""
    picked, axes = [], []
    for x, size in zip(index, tensor.shape):
        if x.op == _CONSTANT:
            picked.append(_whole(x.value))
        else:
            axis = x.value
            if size < sizes[axis]:
                raise InvalidArgument(
                    f"a table of shape {tuple(tensor.shape)} is read at {sizes[axis]} {_AXES[axis]}: it has {size}"
                )
            picked.append(slice(0, sizes[axis]))
            axes.append(axis)
    order = sorted(range(len(axes)), key=axes.__getitem__)
    if order != list(range(len(axes))) or len(axes) < len(index):
        try:
            tensor = tensor[tuple(picked)]
        except IndexError as problem:
            raise InvalidArgument(f"a table in a score function: {problem}") from None
        tensor = tensor.permute(order) if hasattr(tensor, "permute") else tensor.transpose(order)
        picked = [slice(None)] * len(axes)
    places = dict(zip(sorted(axes), picked))
    return tensor[tuple(places.get(axis) for axis in range(4))]  # None where the table has no such axis


def _diagonals(tensor, index, sizes):
    """table[h, i - j + c] or table[h, j - i + c] as windows of the table: no matrix of places, and a gradient that adds up
    along diagonals. None: the index has another form."""
    shift = _difference(index[-1])
    if shift is None or not all(x.op in (_POSITION, _CONSTANT) for x in index[:-1]) or not _apart(index[:-1]):
        return None
    if any(x.op == _POSITION and x.value > 1 for x in index[:-1]) or tensor.dtype.is_complex:
        return None
    sign, constant = shift
    _, _, queries, keys = sizes
    begin = constant - (keys - 1 if sign > 0 else queries - 1)
    if begin < 0 or begin + queries + keys - 1 > tensor.shape[-1]:
        return None  # _places says what is wrong, or counts from the end
    last = Expression(_POSITION, (), 3, False, True)  # stands for all that is read of the last axis
    read = queries + keys - 1
    rows = _view(tensor.narrow(-1, begin, read), (*index[:-1], last), (*sizes[:3], read))[:, :, 0]
    rows = rows.float() if tensor.is_floating_point() else rows  # sums of the gradient are in fp32
    rows = rows.flip(-1) if sign > 0 else rows
    return rows.unfold(-1, keys, 1).flip(-2).to(tensor.dtype)


def _difference(x):
    """(1, c) for i - j + c, (-1, c) for j - i + c, in any order of its sums; else None."""
    factors = _linear(x)
    if factors is None or factors[0] or factors[1]:
        return None
    return (factors[2], factors[4]) if factors[2] == -factors[3] and factors[2] in (1, -1) else None


def _linear(x):
    """Factors of b, h, i, j and the constant of a sum; None: it is no sum."""
    if x.op == _CONSTANT:
        return (0, 0, 0, 0, _whole(x.value))
    if x.op == _POSITION:
        return tuple(int(axis == x.value) for axis in range(4)) + (0,)
    parts = [_linear(each) for each in x.inputs]
    if None in parts:
        return None
    if x.op == _UNARY["negate"]:
        return tuple(-a for a in parts[0])
    if x.op in (_BINARY["add"], _BINARY["subtract"]):
        sign = 1 if x.op == _BINARY["add"] else -1
        return tuple(a + sign * b for a, b in zip(*parts))
    return None


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
    library = sys.modules["torch"] if _on_torch(like) else namespace(like)

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
