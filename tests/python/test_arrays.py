"""attention() on numpy arrays and on whatever speaks DLPack: values, gradients, layouts, refusals."""

import math
import weakref

import numpy as np
import pytest

import ridgeline


def plain(q, k, v, seen=None, scale=None):
    scores = np.einsum("...qd,...kd->...qk", q.astype("f8"), k.astype("f8")) * (scale or 1 / math.sqrt(q.shape[-1]))
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    return weights / total @ v.astype("f8"), (top + np.log(total))[..., 0]


def random_inputs(*shape, dtype="f4", count=3, seed=0):
    made = np.random.default_rng(seed).standard_normal((count, *shape))
    return [x.astype(dtype) for x in made]


class OnlyDLPack:
    """An array of a library that nobody knows."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device, self.exports = array, device, 0

    def __dlpack__(self, *, stream=None):
        assert stream is None
        self.exports += 1
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device


@pytest.mark.parametrize("shape", [(2, 3, 33, 16), (2, 33, 16), (33, 16)])
def test_values_and_log_sum_exp_are_those_of_the_formula(shape):
    q, k, v = random_inputs(*shape)
    out, lse = ridgeline.attention(q, k, v, return_lse=True)
    expected, expected_lse = plain(q, k, v)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    np.testing.assert_allclose(lse, expected_lse, atol=1e-5)
    assert out.dtype == q.dtype and lse.dtype == np.float32


@pytest.mark.parametrize("causal, first", [(True, 0), ("top_left", 0), ("bottom_right", 13)])
def test_masks_begin_at_the_corner_that_was_named(causal, first):
    q, *_ = random_inputs(1, 2, 20, 8)
    k, v = random_inputs(1, 2, 33, 8, count=2, seed=1)
    at = np.arange(20)[:, None] + first
    seen = (np.arange(33) <= at) & (np.arange(33) > at - 5)
    out = ridgeline.attention(q, k, v, causal=causal, window=5, scale=0.7)
    np.testing.assert_allclose(out, plain(q, k, v, seen, 0.7)[0], atol=1e-5)


def test_gradients_are_those_of_differences():
    q, k, v, d_out = random_inputs(1, 1, 9, 8, count=4)
    out, lse = ridgeline.attention(q, k, v, causal=True, return_lse=True)
    gradients = ridgeline.attention_gradients(q, k, v, out, lse, d_out, causal=True)
    seen = np.tri(9, dtype=bool)
    for x, gradient in zip((q, k, v), gradients):
        for place in ((0, 0, 3, 2), (0, 0, 8, 7)):
            sums = []
            for step in (1e-3, -1e-3):
                moved = [each.astype("f8") for each in (q, k, v)]
                for each, original in zip(moved, (q, k, v)):
                    if original is x:
                        each[place] += step
                sums.append((plain(*moved, seen)[0] * d_out).sum())
            assert gradient[place] == pytest.approx((sums[0] - sums[1]) / 2e-3, abs=1e-3)


def test_grouped_heads_and_half_precision():
    (q,) = random_inputs(2, 4, 10, 16, dtype="f2", count=1)
    k, v = random_inputs(2, 2, 10, 16, dtype="f2", count=2)
    out = ridgeline.attention(q, k, v, enable_gqa=True)
    expected, _ = plain(q, k.repeat(2, 1), v.repeat(2, 1))
    assert out.dtype == np.float16
    np.testing.assert_allclose(out, expected, atol=5e-3)


def test_arrays_are_read_where_they_lie():
    packed = np.random.default_rng(0).standard_normal((2, 20, 3, 4, 16)).astype("f4")
    packed.flags.writeable = False
    q, k, v = (packed[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    np.testing.assert_allclose(ridgeline.attention(q, k, v), plain(q, k, v)[0], atol=1e-5)


def test_any_library_that_speaks_dlpack_is_served_and_its_memory_let_go():
    q, k, v = random_inputs(1, 2, 5, 8)
    wrapped = [OnlyDLPack(x) for x in (q, k, v)]
    out = ridgeline.attention(*wrapped)
    np.testing.assert_allclose(np.asarray(out), plain(q, k, v)[0], atol=1e-5)
    assert [x.exports for x in wrapped] == [1, 1, 1]
    alive = [weakref.ref(x) for x in (q, k, v)]
    del q, k, v, wrapped
    assert [x() for x in alive] == [None] * 3


def test_a_score_function_on_numpy_reads_tables_and_numpy_functions():
    q, k, v = random_inputs(2, 3, 12, 8)
    slopes = np.array([0.5, 0.25, 0.125], "f4")
    table = ridgeline.score.operand(slopes)
    out = ridgeline.attention(q, k, v, score=lambda s, b, h, i, j: 5 * np.tanh(s / 5) + table[h] * (j - i))
    scores = np.einsum("...qd,...kd->...qk", q, k) / math.sqrt(8)
    distance = np.arange(12) - np.arange(12)[:, None]
    scores = 5 * np.tanh(scores / 5) + slopes[:, None, None] * distance
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(out, weights / weights.sum(-1, keepdims=True) @ v, atol=1e-5)


def test_a_table_of_numpy_is_read_at_clamped_and_chosen_positions():
    q, k, v = random_inputs(2, 3, 12, 8)
    bias = np.random.default_rng(1).standard_normal((3, 12)).astype("f4")
    table = ridgeline.score.operand(bias)
    distance = np.arange(12)[:, None] - np.arange(12)
    for place, at in [
        (lambda i, j: ridgeline.score.maximum(i - j, 0), np.maximum(distance, 0)),
        (lambda i, j: np.minimum(ridgeline.score.abs(i - j), 5), np.minimum(abs(distance), 5)),
        (lambda i, j: np.where(i < j, 2, i - j), np.where(distance < 0, 2, distance)),
    ]:
        out = ridgeline.attention(q, k, v, score=lambda s, b, h, i, j, place=place: s + table[h, place(i, j)])
        scores = np.einsum("...qd,...kd->...qk", q, k) / math.sqrt(8) + bias[:, at]
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(out, weights / weights.sum(-1, keepdims=True) @ v, atol=1e-5)


def test_what_is_wrong_is_refused_with_its_name():
    q, k, v = random_inputs(1, 2, 5, 8)
    for arguments, options, kind, words in [
        (([1.0], k, v), {}, ridgeline.WrongType, "q is builtins.list"),
        ((q, None, v), {}, ridgeline.WrongType, "k is builtins.NoneType"),
        ((q.astype("i4"), k, v), {}, ridgeline.Unsupported, "q is int32"),
        ((q.astype("f8"), k, v), {}, ridgeline.Unsupported, "q is float64"),
        ((q.astype(">f4"), k, v), {}, ridgeline.Unsupported, "byte order"),
        ((q, k.astype("f2"), v), {}, ridgeline.InvalidArgument, "k is float16, q float32"),
        ((q[0, 0, 0], k, v), {}, ridgeline.InvalidArgument, "q has shape (8,)"),
        ((q[0], k, v), {}, ridgeline.InvalidArgument, "3, 4 and 4 axes"),
        ((q[:, :1], k, v), {}, ridgeline.InvalidArgument, "enable_gqa"),
        ((q, k[:, :, ::-1], v), {}, ridgeline.InvalidArgument, "strides"),
        ((q, k, v[..., :4]), {}, ridgeline.Unsupported, "v is 4 wide"),
        ((q, k[:, :, :0], v[:, :, :0]), {}, ridgeline.InvalidArgument, "sizes from 1 on"),
        ((q, k, v), {"causal": "left"}, ridgeline.InvalidArgument, "causal is 'left'"),
        ((q, k, v), {"causal": []}, ridgeline.InvalidArgument, "causal is []"),
        ((q, k, v), {"window": 3}, ridgeline.Unsupported, "window is 3 without causal"),
        ((q, k, v), {"causal": True, "window": -1}, ridgeline.InvalidArgument, "window is -1"),
        ((q, k, v), {"causal": True, "window": 2**80}, ridgeline.InvalidArgument, "window is"),
        ((q, k, v), {"causal": True, "window": 1.5}, ridgeline.WrongType, "window is 1.5"),
        ((q, k, v), {"scale": 0}, ridgeline.InvalidArgument, "scale is 0"),
        ((q, k, v), {"scale": float("nan")}, ridgeline.InvalidArgument, "scale is nan"),
        ((q, k, v), {"scale": "1"}, ridgeline.WrongType, "scale is '1'"),
        ((q, k, v), {"score": 3}, ridgeline.WrongType, "score is 3"),
        ((OnlyDLPack(q, (4, 0)), k, v), {}, ridgeline.Unsupported, "DLPack type 4"),
        ((OnlyDLPack(q, (2, 0)), k, v), {}, ridgeline.Error, "q"),
    ]:
        with pytest.raises(kind) as caught:
            ridgeline.attention(*arguments, **options)
        assert words in str(caught.value)


def test_half_of_two_libraries_is_refused():
    torch = pytest.importorskip("torch")
    q, k, v = random_inputs(1, 2, 5, 8)
    with pytest.raises(ridgeline.InvalidArgument, match="k is a PyTorch tensor"):
        ridgeline.attention(q, torch.from_numpy(k), v)
    with pytest.raises(ridgeline.WrongType, match="k is numpy.ndarray"):
        ridgeline.attention(torch.from_numpy(q), k, v)
