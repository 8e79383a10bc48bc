"""verify(): compares any attention function with fp64 formulas over random problems, and times it against ours."""

import math
import random
import traceback
from dataclasses import dataclass

from ._records import Records
from .errors import InvalidArgument, Unsupported, WrongType

_TINY = (1, 1, 4, 4, 8)  # batch, heads, queries, keys, width


@dataclass
class _Problem:
    batch: int
    heads: int
    queries: int
    keys: int
    width: int
    causal: bool
    dtype: str
    seed: int

    @property
    def scale(self):
        return 1 / math.sqrt(self.width)


def _random_problem(seed, dtypes, with_causal):
    chance = random.Random(seed)
    queries = chance.choice((1, 2, 7, 16, 33, 64, 100, 129))
    return _Problem(
        batch=chance.choice((1, 2, 3)),
        heads=chance.choice((1, 2, 4)),
        queries=queries,
        keys=queries,
        width=chance.choice((8, 16, 17, 32, 64, 80, 128)),
        causal=with_causal and chance.random() < 0.5,
        dtype=dtypes[seed % len(dtypes)],
        seed=seed,
    )


class _Torch:
    """Problems as PyTorch tensors."""

    def __init__(self, device):
        import torch

        self.torch, self.device = torch, device

    def tensors(self, problem, heads):
        generator = self.torch.Generator().manual_seed(problem.seed)
        lead = (problem.batch, problem.heads) if heads else (problem.batch,)
        shapes = [(*lead, n, problem.width) for n in (problem.queries, problem.keys, problem.keys, problem.queries)]
        dtype = getattr(self.torch, problem.dtype)
        return [self.torch.randn(*shape, generator=generator).to(dtype).to(self.device) for shape in shapes]

    def results(self, call, q, k, v, d_out, causal, gradients):
        leaves = [x.requires_grad_(gradients) for x in (q, k, v)]
        out = call(*leaves, causal)
        if not isinstance(out, self.torch.Tensor):
            raise WrongType(f"the function returned {type(out).__name__}: expected a tensor like q")
        found = {"out": out}
        if gradients and out.requires_grad:
            found.update(zip(("d_q", "d_k", "d_v"), self.torch.autograd.grad(out, leaves, d_out)))
        return found

    def exact(self, x):
        return x.detach().double().cpu().numpy()

    def ours(self, q, k, v, causal):
        from .torch import attention

        return attention(q, k, v, causal=causal)

    def full_step(self, call, q, k, v, d_out, causal):
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        return lambda: self.torch.autograd.grad(call(*leaves, causal), leaves, d_out)


class _Numpy:
    """Problems as numpy arrays; no gradients."""

    def tensors(self, problem, heads):
        import numpy

        generator = numpy.random.default_rng(problem.seed)
        lead = (problem.batch, problem.heads) if heads else (problem.batch,)
        shapes = [(*lead, n, problem.width) for n in (problem.queries, problem.keys, problem.keys, problem.queries)]
        return [generator.standard_normal(shape).astype(problem.dtype) for shape in shapes]

    def results(self, call, q, k, v, d_out, causal, gradients):
        import numpy

        return {"out": numpy.asarray(call(q, k, v, causal))}

    def exact(self, x):
        return x.astype("float64")

    def ours(self, q, k, v, causal):
        from ._front import attention

        return attention(q, k, v, causal=causal)


def _library_of(arrays, device):
    if arrays not in (None, "torch", "numpy"):
        raise InvalidArgument(f"arrays is {arrays!r}: expected 'torch' or 'numpy'")
    if arrays != "numpy":
        try:
            return _Torch(device)
        except ImportError:
            if arrays == "torch":
                raise Unsupported("arrays='torch' needs PyTorch: pip install torch") from None
    return _Numpy()


def _caller(function, tensors):
    """Finds on a tiny problem how the function takes `causal`: by a keyword, as its fourth argument, or not at all.
    Returns call(q, k, v, causal), and whether it supports causal."""
    q, k, v, _ = tensors
    forms = (
        lambda q, k, v, c: function(q, k, v, causal=c),
        lambda q, k, v, c: function(q, k, v, is_causal=c),
        lambda q, k, v, c: function(q, k, v, c),
        lambda q, k, v, c: function(q, k, v),
    )
    refused = []
    for form in forms:
        try:
            form(q, k, v, False)
        except TypeError as problem:
            refused.append(problem)
            continue
        except Exception:  # of the function itself: the problems report it
            pass
        return form, form is not forms[-1]
    # One that was raised inside of the function says more than those about its arguments.
    deepest = max(refused, key=lambda problem: len(traceback.extract_tb(problem.__traceback__)))
    raise WrongType(f"the function takes neither (q, k, v, causal) nor (q, k, v): {deepest}") from deepest


class Verification(Records):
    """Rows of verify(), one for each tensor of each problem; `passed`; `timings` of both, if measured."""

    def __init__(self, rows, timings, gradients):
        super().__init__(rows)
        self.timings, self._gradients = timings, gradients

    @property
    def passed(self):
        return bool(self) and all(row["ok"] for row in self)

    @property
    def notes(self):
        wrong = [row for row in self if not row["ok"]]
        problems = {row["seed"] for row in self}
        found = [f"{len(problems)} problems: " + ("all right" if not wrong else f"{len({r['seed'] for r in wrong})} wrong")]
        checked = {row["seed"] for row in self if row["raised"] or row["tensor"] != "out"}
        if self._gradients and checked != problems:
            part = f" in {len(problems - checked)} problems" if checked else ""
            found.append(f"gradients not checked{part}: the output has none")
        for row in wrong[:3]:
            what = row["raised"] or f"is off by {row['error']:.3g}, at most {row['allowed']:.3g} is allowed"
            found.append(f"{row['tensor']} of {row['dtype']} {row['shape']}, causal {row['causal']}: {what}")
        for row in self.timings:
            if row["implementation"] != "ridgeline":
                found.append(f"{row['name']}: {row['ratio']:.2f} times the time of ridgeline "
                             f"({row['ratio_low']:.2f} to {row['ratio_high']:.2f})")  # fmt: skip
        return found


def verify(function, *, problems=24, seed=0, dtypes=None, device="cpu", heads=True, gradients=True, arrays=None,
           benchmark=(1, 8, 512, 64), iterations=30):  # fmt: skip
    """Checks function(q, k, v, causal) against attention in fp64 over random problems, then times it against ours.

    function   takes q, k and v of [batch, heads, length, width], or of [batch, length, width] with heads=False; causal as a
               keyword `causal` or `is_causal`, as the fourth argument, or not at all. MyFunction.apply works.
    dtypes     "float32", "bfloat16", "float16"; all of them for PyTorch, float32 for numpy
    gradients  also checks those of q, k and v by PyTorch's autograd, if the output has them
    arrays     "torch" or "numpy"; None: PyTorch if it is installed
    benchmark  (batch, heads, length, width) at which it is timed, alternating with ours; None: not timed

    An error may be at most twice that of plain formulas in the same dtype, or a few roundings.
    """
    if not callable(function):
        raise WrongType(f"{function!r} is no function: pass one that takes q, k and v")
    if not hasattr(problems, "__index__") or problems < 1:
        raise InvalidArgument(f"problems is {problems!r}: expected at least 1")
    library = _library_of(arrays, device)
    dtypes = (dtypes,) if isinstance(dtypes, str) else dtypes
    dtypes = tuple(dtypes or (("float32", "bfloat16", "float16") if isinstance(library, _Torch) else ("float32",)))
    for dtype in dtypes:
        if dtype not in ("float32", "bfloat16", "float16"):
            raise InvalidArgument(f"dtype {dtype!r}: expected float32, bfloat16 or float16")
        if dtype == "bfloat16" and isinstance(library, _Numpy):
            raise InvalidArgument("numpy has no dtype 'bfloat16': use float32 or float16, or arrays='torch'")
    if benchmark is not None and len(benchmark) != 4:
        raise InvalidArgument(f"benchmark is {benchmark!r}: expected (batch, heads, length, width)")
    tiny = _Problem(*_TINY, False, dtypes[0], 0)
    call, with_causal = _caller(function, library.tensors(tiny, heads))
    rows = []
    for i in range(problems):
        rows += _check(library, call, _random_problem(seed + i, dtypes, with_causal), heads, gradients)
    timings = Records()
    if benchmark is not None and not all(row["raised"] for row in rows):
        timings = _times(library, call, getattr(function, "__name__", "function"), benchmark, dtypes[0], heads,
                         with_causal, gradients, iterations, device)  # fmt: skip
    return Verification(rows, timings, gradients)


def _check(library, call, problem, heads, gradients):
    import numpy

    from . import _oracle

    q, k, v, d_out = library.tensors(problem, heads)
    exact_inputs = [library.exact(x) for x in (q, k, v, d_out)]
    shape = "x".join(map(str, q.shape))
    facts = {"seed": problem.seed, "dtype": problem.dtype, "shape": shape, "causal": problem.causal}
    seen = _oracle.visible(problem.queries, problem.keys, problem.causal)
    exact = _oracle.attention(*exact_inputs, seen, problem.scale)
    narrow = [x.astype(numpy.float32) for x in exact_inputs]
    plain = _oracle.attention(*narrow, seen, numpy.float32(problem.scale), _oracle.rounding_to(problem.dtype))
    largest = max(numpy.abs(x).max() for x in exact_inputs)
    allowed = _oracle.allowed_errors(exact, plain, problem.dtype, largest, problem.width, problem.queries)
    try:
        found = library.results(call, q, k, v, d_out, problem.causal, gradients)
    except Exception as error:
        nothing = {"tensor": "out", "error": None, "allowed": allowed["out"], "ok": False}
        return [{**facts, **nothing, "raised": f"{type(error).__name__}: {error}"}]
    rows = []
    for name, x in found.items():
        error = numpy.inf
        if tuple(x.shape) == exact[name].shape:
            error = numpy.abs(library.exact(x) - exact[name]).max()
        ok = bool(error <= allowed[name])  # False for NaN
        rows.append({**facts, "tensor": name, "error": float(error), "allowed": float(allowed[name]), "ok": ok, "raised": ""})
    return rows


def _times(library, call, name, size, dtype, heads, with_causal, gradients, iterations, device):
    from ._measure import measure

    batch, count, length, width = size
    problem = _Problem(batch, count, length, length, width, with_causal, dtype, 1)
    q, k, v, d_out = library.tensors(problem, heads)
    sizes = {"batch": batch, "heads": count if heads else 1, "length": length, "width": width}
    kind = "cuda" if str(device).startswith("cuda") else "cpu"

    def in_turns(label, ours, theirs):
        return measure({"ridgeline": ours, name: theirs}, name=label, sizes=sizes, device=kind, iterations=iterations,
                       warmups=max(1, min(10, iterations // 3)))  # fmt: skip

    rows = in_turns("forward", lambda: library.ours(q, k, v, with_causal), lambda: call(q, k, v, with_causal))
    if gradients and isinstance(library, _Torch):
        try:
            theirs = library.full_step(call, q, k, v, d_out, with_causal)
            theirs()
        except RuntimeError:  # it has no gradients
            return rows
        rows += in_turns("forward and backward", library.full_step(library.ours, q, k, v, d_out, with_causal), theirs)
    return rows
