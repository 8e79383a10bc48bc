"""The tensors that a score function reads, in the layout of the kernels: [batch, heads, queries, keys] with size 1
along broadcast axes."""

import builtins
import contextlib
import sys

from ._arrays import namespace
from ._calls import MOST_OPERANDS
from .errors import InvalidArgument, Unsupported, WrongType
from .score import _BINARY, _BOOL_OPERAND, _CONSTANT, _INT_OPERAND, _OPERAND, _POSITION, _UNARY, _WHERE, _on_torch

_AXES = ("batch", "heads", "queries", "keys")


class Index(tuple):
    """The index of a table. `axes`: the axes of the scores, if the index consists of single positions in their order,
    else None. `shift`: (1, c) for table[..., i - j + c], (-1, c) for table[..., j - i + c], else None."""

    def __new__(cls, places):
        made = super().__new__(cls, places)
        axes = tuple(x.value for x in made if x.op == _POSITION)
        made.axes = axes if len(axes) == len(made) and list(axes) == sorted(set(axes)) else None
        lead = made[:-1]
        heads = all(x.op == _CONSTANT or x.op == _POSITION and x.value < 2 for x in lead) and _apart(lead)
        made.shift = _difference(made[-1]) if heads else None
        return made


class Operands:
    """The operands of a function by number: (tensor, index), where index is None for the whole tensor; or (None,
    expression) for an expression of positions that the kernels cannot compute."""

    def __init__(self):
        self.list, self._known = [], {}

    def number(self, tensor, index):
        """Returns the number of an operand, and the op that reads it."""
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
    """Returns an operand for scores of these sizes [batch, heads, queries, keys]; `like` is q."""
    if tensor is None:
        return _as_int32(_evaluate(index, sizes, like))
    if _on_torch(tensor) != _on_torch(like):
        raise WrongType("a score function reads tensors of the library that q is of: torch.from_numpy makes PyTorch's")
    if _dtype(tensor) in _WIDE_INTEGERS:
        _check_exact(tensor)
    if index is None:
        if len(tensor.shape) > 4:
            raise InvalidArgument(f"a tensor of shape {tuple(tensor.shape)} in a score function has more than 4 axes")
        laid = tensor[(None,) * (4 - len(tensor.shape))] if len(tensor.shape) < 4 else tensor
    elif index.axes is not None and _on_torch(tensor) and tuple(tensor.shape) == tuple([sizes[axis] for axis in index.axes]):
        return _whole_table(tensor, index.axes)
    elif all(x.op == _POSITION or x.op == _CONSTANT for x in index) and _apart(index):
        laid = _view(tensor, index, sizes)
    else:
        if index.shift is not None and _on_torch(tensor) and _in_table(tensor, index, sizes):
            return Diagonals(tensor.resolve_neg() if tensor.dtype in _read_where_they_lie() else _as_int32(tensor), index, sizes)
        laid = tensor[_places(index, tuple(tensor.shape), sizes, like)]
    if _on_torch(laid):
        laid = laid.resolve_neg()
    return _as_int32(laid) if "int" in _dtype(laid) and _dtype(laid) != "int32" else laid


_WIDE_INTEGERS = ("int64", "uint32", "uint64")


def _check_exact(tensor):
    """Refuses integers of which the kernels would read the lower 32 bits, so that different ones, such as the documents of
    two queries, could compare equal. Values on a GPU are not looked at, because that would wait for it."""
    if _on_torch(tensor) and tensor.device.type != "cpu" or 0 in tensor.shape:
        return
    values = tensor.resolve_neg().numpy() if _on_torch(tensor) and "numpy" in sys.modules else tensor  # up to 18 times as fast
    least, most = int(values.min()), int(values.max())
    if least < -(2**31) or most >= 2**31:
        raise InvalidArgument(
            f"a score function reads integers from {least} to {most}: make them fit 32 bits, for instance by "
            "torch.unique(x, return_inverse=True)"
        )


def _whole_table(tensor, axes):
    """Returns a tensor that is read at all its positions, with axes of size 1 inserted. 64-bit integers are read in
    place, as their low words."""
    shape, strides = [1] * 4, [0] * 4
    for axis, size, stride in zip(axes, tensor.shape, tensor.stride()):
        shape[axis], strides[axis] = size, 2 * stride
    if tensor.is_floating_point():
        return tensor.view(shape).resolve_neg()
    torch = sys.modules["torch"]
    if tensor.dtype == torch.int64 and tensor.stride(-1) == 1:
        words = tensor.view(torch.int32)
        return words.as_strided(shape, strides, words.storage_offset())
    return tensor.view(shape) if tensor.dtype in (torch.int32, torch.bool) else _as_int32(tensor.view(shape))


def _apart(index):
    axes = [x.value for x in index if x.op == _POSITION]
    return len(axes) == len(set(axes))


def _view(tensor, index, sizes):
    """Returns table[h, i] in place: axes in order, with size 1 for those that are not indexed."""
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


def _read_where_they_lie():
    torch = sys.modules["torch"]
    return torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.bool, torch.float64  # the last is refused later


def _in_table(tensor, index, sizes):
    """Whether the whole index is in range; otherwise _places() reports the error, or counts from the end."""
    sign, constant = index.shift
    begin = constant - (sizes[3] - 1 if sign > 0 else sizes[2] - 1)
    return (begin >= 0 and begin + sizes[2] + sizes[3] - 1 <= tensor.shape[-1] and
            all(size >= sizes[x.value] if x.op == _POSITION else 0 <= _whole(x.value) < size
                for x, size in zip(index[:-1], tensor.shape)))  # fmt: skip


class Diagonals:
    """PyTorch's table[h, i - j + c] as the kernels read it in place: a tensor [batch, heads, queries, keys] with one
    negative stride, which PyTorch does not support. Has the attributes that operands need."""

    __slots__ = ("_offset", "_strides", "index", "shape", "sizes", "tensor")

    def __init__(self, tensor, index, sizes):
        self.tensor, self.index, self.sizes = tensor, index, sizes
        sign, self._offset = index.shift
        steps = tensor.stride()
        self._offset *= steps[-1]
        shape, strides = [1, 1, *sizes[2:]], [0, 0, sign * steps[-1], -sign * steps[-1]]
        for x, step in zip(index[:-1], steps):
            if x.op == _CONSTANT:
                self._offset += _whole(x.value) * step
            else:
                shape[x.value], strides[x.value] = sizes[x.value], step
        self.shape, self._strides = tuple(shape), tuple(strides)

    dtype = property(lambda self: self.tensor.dtype)
    device = property(lambda self: self.tensor.device)
    # Dtype and shape of the gradient from the kernels: sums along diagonals, ordered by j - i.
    sum_dtype = property(lambda self: sys.modules["torch"].float32)
    sum_shape = property(lambda self: (*self.shape[:2], 1, self.shape[2] + self.shape[3] - 1))

    def stride(self):
        return self._strides

    def data_ptr(self):
        address = self.tensor.data_ptr()
        return address and address + self._offset * self.tensor.element_size()

    def gradient(self, sums):
        """Returns the gradient of the table from the sums along diagonals."""
        sign, constant = self.index.shift
        _, _, queries, keys = self.shape
        begin = constant - (keys - 1 if sign > 0 else queries - 1)
        places, axes = [], []
        for x in self.index[:-1]:
            places.append(_whole(x.value) if x.op == _CONSTANT else slice(0, self.shape[x.value]))
            axes += [x.value] if x.op == _POSITION else []
        rows = sums.permute(*axes, *(axis for axis in range(3) if axis not in axes), 3)
        rows = rows.reshape([self.shape[axis] for axis in axes] + [queries + keys - 1])
        if sign > 0:
            rows = rows.flip(-1)
        if rows.shape == self.tensor.shape:  # the whole table is read
            return rows.to(self.tensor.dtype)
        made = sys.modules["torch"].zeros(self.tensor.shape, dtype=self.tensor.dtype, device=rows.device)
        made[(*places, slice(begin, begin + queries + keys - 1))] = rows
        return made


def _difference(x):
    """Returns (1, c) for i - j + c and (-1, c) for j - i + c, in any order of terms; else None."""
    factors = _linear(x)
    if factors is None or factors[0] or factors[1]:
        return None
    return (factors[2], factors[4]) if factors[2] == -factors[3] and factors[2] in (1, -1) else None


def _linear(x):
    """Returns the factors of b, h, i, j and the constant of a linear expression; None for any other."""
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
_known_places = {}  # index matrices, made and checked once per table because that waits for the GPU


def _places(index, shape, sizes, like):
    key = (tuple(_key(x) for x in index), shape, sizes, str(getattr(like, "device", "cpu")), type(like).__module__)
    found = _known_places.get(key)
    if found is None:
        with sys.modules["torch"].inference_mode(False) if _on_torch(like) else contextlib.nullcontext():  # autograd saves them
            found = tuple(_place(x, size, shape, sizes, like) for x, size in zip(index, shape))
        if len(_known_places) >= _MOST_PLACES:
            _known_places.clear()
        _known_places[key] = found
    return found


def _place(x, size, shape, sizes, like):
    at = _evaluate(x, sizes, like)
    if int(at.min()) < -size or int(at.max()) >= size:
        raise InvalidArgument(f"a table of shape {shape} is read at {int(at.min())} to {int(at.max())} of an axis of {size}")
    return at


def _key(x):
    return (x.op, x.value, tuple(_key(each) for each in x.inputs))


def _evaluate(x, sizes, like):
    """Evaluates an expression of positions in integers, on aranges along its axes."""
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
        if x.op in _OF_ARRAYS:
            return getattr(library, _OF_ARRAYS[x.op])(*(as_array(each) for each in inputs))
        if x.op not in _WHOLE:
            raise Unsupported("a table is read at a place that is computed with more than whole numbers")
        return _WHOLE[x.op](*inputs)

    def as_array(x):
        if isinstance(x, bool):
            return array(1) < x
        return array(1) + x if isinstance(x, int) else x

    return as_array(run(x))


_OF_ARRAYS = {_BINARY["maximum"]: "maximum", _BINARY["minimum"]: "minimum", _WHERE: "where"}
_WHOLE = {
    16: lambda x: -x, 25: builtins.abs,
    32: lambda x, y: x + y, 33: lambda x, y: x - y, 34: lambda x, y: x * y,
    "floor_divide": lambda x, y: x // y, "remainder": lambda x, y: x % y, 48: lambda x, y: x < y,
    49: lambda x, y: x <= y, 50: lambda x, y: x == y, 51: lambda x, y: x != y, 52: lambda x, y: x > y,
    53: lambda x, y: x >= y, 64: lambda x, y: x & y, 65: lambda x, y: x | y, 66: lambda x: ~x,
}  # fmt: skip
