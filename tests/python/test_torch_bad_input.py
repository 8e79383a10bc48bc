"""Whatever is passed: a result or an exception of ours, never a crash."""

import random

import pytest
import torch
from support import plain

import ridgeline

CALLS = 10_000


def test_what_is_wrong_with_tensors_is_named():
    q, k, v = (torch.randn(1, 2, 5, 8) for _ in range(3))
    freed = torch.randn(1, 2, 5, 8)
    if hasattr(freed, "untyped_storage"):
        freed.untyped_storage().resize_(0)
    else:
        freed.storage().resize_(0)
    for arguments, options, kind, words in [
        ((q.int(), k, v), {}, ridgeline.Unsupported, "q is torch.int32"),
        ((q, k.double(), v), {}, ridgeline.Unsupported, "k is torch.float64"),
        ((q, k.half(), v), {}, ridgeline.InvalidArgument, "k is torch.float16, q torch.float32"),
        ((q, k.to("meta"), v), {}, ridgeline.Error, "k is on meta"),
        ((q.to_sparse(), k, v), {}, ridgeline.Unsupported, "q is no dense tensor"),
        ((torch.nested.nested_tensor([q[0]]), k, v), {}, ridgeline.Unsupported, "to_padded_tensor"),
        ((q, "k", v), {}, ridgeline.WrongType, "k is builtins.str"),
        ((q, k, None), {}, ridgeline.WrongType, "v is builtins.NoneType"),
        ((q[0], k, v), {}, ridgeline.InvalidArgument, "3, 4 and 4 axes"),
        ((q[None], k[None], v[None]), {}, ridgeline.InvalidArgument, "q has shape (1, 1, 2, 5, 8)"),
        ((q, k[:, :1], v[:, :1]), {}, ridgeline.InvalidArgument, "enable_gqa"),
        ((q, k, v[:, :, :4]), {}, ridgeline.InvalidArgument, "v has shape"),
        ((q[:, :, :0], k, v), {}, ridgeline.InvalidArgument, "sizes from 1 on"),
        ((q, k[:, :, :1].expand(1, 2, 5, 8), v), {}, ridgeline.InvalidArgument, "0 is served along batch"),
        ((q, freed, v), {}, ridgeline.InvalidArgument, "k has no memory"),
        ((torch.randn(1, 1, 4, 300),) * 3, {}, ridgeline.Unsupported, "head_dim is 300"),
        ((q, k, v), {"scale": torch.randn(3)}, ridgeline.WrongType, "scale is"),
        ((q, k, v), {"causal": "right"}, ridgeline.InvalidArgument, "causal is 'right'"),
        ((q, k, v), {"causal": True, "window": "3"}, ridgeline.WrongType, "window is '3'"),
        ((q, k, v), {"score": lambda s, b, h, i, j: s if i > j else s}, ridgeline.InvalidArgument, "no single value"),
        ((q, k, v), {"score": lambda s, b, h, i, j: i > j}, ridgeline.InvalidArgument, "gives a condition"),
        ((q, k, v), {"score": lambda s, b, h, i, j: torch.erf(s)}, ridgeline.Unsupported, "do not know erf"),
        ((q, k, v), {"score": lambda s, b, h, i, j: s + torch.ones(7)[h, i]}, ridgeline.InvalidArgument, "2 positions"),
        ((q, k, v), {"score": lambda s, b, h, i, j: s + torch.ones(7)[h + i * 3]}, ridgeline.InvalidArgument, "0 to 13"),
        ((q, k, v), {"score": lambda s, b, h, i, j: s + torch.ones(3)[j]}, ridgeline.InvalidArgument, "at 5 keys"),
        ((q, k, v), {"score": lambda s, b, h, i, j: s + torch.ones(3, 5)}, ridgeline.InvalidArgument, "operands[0]"),
        ((q, k, v), {"score": lambda s, b, h, i, j: s + torch.ones(5).double()}, ridgeline.Unsupported, "torch.float64"),
        ((q, k, v), {"score": lambda s, b, h, i, j: s + object()}, ridgeline.WrongType, "object"),
    ]:
        with pytest.raises(kind) as caught:
            ridgeline.attention(*arguments, **options)
        assert words in str(caught.value)


def random_argument(chance, good):
    """The good tensor, or something near it."""
    kind = chance.randrange(30)
    axes = good.dim()
    if kind == 0:
        return chance.choice((None, 3, "q", [1.0], good.numpy(), object(), good.shape))
    if kind == 1:
        return good.to(chance.choice((torch.int64, torch.bool, torch.float64, torch.float16, torch.bfloat16)))
    if kind == 2:
        return good[tuple(chance.choice((slice(None), slice(0, 0), slice(1, None), 0)) for _ in range(axes))]
    if kind == 3:
        return good.transpose(chance.randrange(axes), chance.randrange(axes))
    if kind == 4:
        return good[..., ::2]
    if kind == 5:
        return torch.as_strided(good, good.shape, [chance.choice((0, 1, s)) for s in good.stride()])
    if kind == 6:
        return good.to("meta")
    if kind == 7:
        return good.to_sparse()
    return good


def random_options(chance):
    options = {}
    if chance.randrange(3) == 0:
        options["causal"] = chance.choice((True, "bottom_right", "top_left", 2, None, "x", [], 0.5))
    if chance.randrange(4) == 0:
        options["window"] = chance.choice((0, 1, 3, 10**6, -1, 2**63, 2**200, 1.5, "w"))
    if chance.randrange(4) == 0:
        options["scale"] = chance.choice((1, 0.5, -1.0, 0, 1e300, 1e-300, float("inf"), "1", None, [2]))
    if chance.randrange(2):
        options["enable_gqa"] = True
    if chance.randrange(4) == 0:
        options["return_lse"] = options["deterministic"] = True
    return options


def test_fuzzed_calls_compute_or_raise_an_error_of_ours():
    chance = random.Random(0)
    served = refused = 0
    for _ in range(CALLS):
        heads, length, width = chance.choice((1, 2, 4)), chance.choice((1, 3, 8)), chance.choice((1, 4, 8))
        q, k, v = (torch.randn(1, heads, length, width) for _ in range(3))
        if chance.randrange(4) == 0:
            k, v = (torch.randn(1, chance.choice((1, heads)), chance.choice((1, 5)), width) for _ in range(2))
        arguments = [random_argument(chance, x) for x in (q, k, v)]
        options = random_options(chance)
        if chance.randrange(3) == 0:
            for x in arguments:
                if isinstance(x, torch.Tensor) and x.is_floating_point() and x.is_leaf:
                    x.requires_grad_()
        try:
            result = ridgeline.attention(*arguments, **options)
        except ridgeline.Error:
            refused += 1
            continue
        served += 1
        out = result[0] if isinstance(result, tuple) else result
        assert out.shape == arguments[0].shape
        if out.requires_grad:
            out.sum().backward()
        elif chance.randrange(10) == 0 and not options.get("causal") and out.dtype == torch.float32:
            with torch.no_grad():
                expected = plain(*(x.double() for x in arguments), scale=options.get("scale"))[0]
            assert torch.allclose(out.double(), expected, atol=1e-4)
    assert served > CALLS / 10 and refused > CALLS / 10
