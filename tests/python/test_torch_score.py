"""Score functions on PyTorch tensors: values and gradients against plain formulas."""

import math

import numpy as np
import pytest
import torch
from support import DEVICES, DTYPES, assert_within_twice, plain, rounded_output, visible

import ridgeline
from ridgeline.score import maximum, minimum, where

BATCH, HEADS, LENGTH, WIDTH = 2, 3, 37, 16
WINDOW, SINKS = 8, 3


class Six:
    """The functions that a library of this kind is asked for first: each as a score function and as a plain formula on a
    matrix of scores, with the tables that have gradients; and masks, as libraries have them that take conditions."""

    def __init__(self, device, dtype, length=LENGTH, heads=HEADS, batch=BATCH, window=WINDOW, sinks=SINKS):
        torch.manual_seed(0)

        def table(*shape):
            return torch.randn(*shape).to(dtype).to(device).requires_grad_()

        slopes, relative = table(heads), table(heads, 2 * length)
        rows, columns = table(heads, length), table(heads, length)
        document = torch.sort(torch.randint(0, 3, (batch, length)))[0].to(device)
        at = torch.arange(length, device=device)[:, None]
        to = torch.arange(length, device=device)[None, :]
        recent = (at >= to) & ((at - to < window) | (to < sinks))
        same = document[:, None, :, None] == document[:, None, None, :]
        hidden = -math.inf
        self.cases = {
            "alibi": (lambda s, b, h, i, j: s + slopes[h] * (j - i) / 16,
                      lambda s, slopes: s + slopes[:, None, None] * (to - at) / 16, [slopes]),
            "relative bias": (lambda s, b, h, i, j: s + relative[h, i - j + length],
                              lambda s, relative: s + relative[:, at - to + length], [relative]),
            "soft cap": (lambda s, b, h, i, j: 20 * torch.tanh(s / 20), lambda s: 20 * torch.tanh(s / 20), []),
            "document mask": (lambda s, b, h, i, j: torch.where(document[b, i] == document[b, j], s, hidden),
                              lambda s: s.masked_fill(~same, hidden), []),
            "window with sinks": (lambda s, b, h, i, j: where((i >= j) & ((i - j < window) | (j < sinks)), s, hidden),
                                  lambda s: s.masked_fill(~recent, hidden), []),
            "product of tables": (lambda s, b, h, i, j: s + rows[h, i] * columns[h, j],
                                  lambda s, rows, columns: s + rows[:, :, None] * columns[:, None, :], [rows, columns]),
        }  # fmt: skip
        self.masks = {
            "document mask": lambda b, h, i, j: document[b, i] == document[b, j],
            "window with sinks": lambda b, h, i, j: (i >= j) & ((i - j < window) | (j < sinks)),
        }


NAMES = list(Six("cpu", torch.float32).cases)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_six_have_values_and_gradients_of_plain_formulas(name, dtype, device):
    function, formula, tables = Six(device, dtype).cases[name]
    torch.manual_seed(1)
    q, k, v, d_out = (torch.randn(BATCH, HEADS, LENGTH, WIDTH).to(dtype).to(device) for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, v)] + tables
    out = ridgeline.attention(q, k, v, score=function)
    got = torch.autograd.grad(out, leaves, d_out)

    def reference(precision, rounding):
        inputs = [x.detach().to(precision).requires_grad_() for x in leaves]
        value, _ = plain(*inputs[:3], score=lambda s: formula(s, *inputs[3:]), dtype=rounding)
        return value, torch.autograd.grad(value, inputs, d_out.to(precision))

    exact, exact_gradients = reference(torch.float64, None)
    theirs, their_gradients = reference(torch.float32, dtype)
    assert_within_twice(out, theirs, exact, dtype, f"{name}: out")
    for i, three in enumerate(zip(got, their_gradients, exact_gradients)):
        assert_within_twice(*three, dtype, f"{name}: gradient {i}", rounded_output(q, k))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("width", [80, 128])
def test_masked_functions_of_many_heads_have_the_values_of_plain_formulas(width, device):
    """On a GPU every multiprocessor has several tiles of queries."""
    heads, length = (300, 300) if device == "cuda" else (5, 40)
    torch.manual_seed(2)
    q, k, v = (torch.randn(1, heads, length, width, device=device).bfloat16() for _ in range(3))
    slopes = torch.randn(heads, device=device)
    place = torch.arange(length, device=device)
    documents = place // (length // 3)
    seen = visible(length, length, True, 0, device)
    for name, function, formula in (
        ("alibi", lambda s, b, h, i, j: s + slopes[h] * (j - i) / 16,
         lambda s: s + slopes[:, None, None] * (place[None, :] - place[:, None]) / 16),
        ("documents", lambda s, b, h, i, j: torch.where(documents[i] == documents[j], s, -math.inf),
         lambda s: s.masked_fill(documents[:, None] != documents[None, :], -math.inf)),
    ):  # fmt: skip
        exact, _ = plain(q.double(), k.double(), v.double(), seen=seen, score=formula)
        theirs, _ = plain(q.float(), k.float(), v.float(), seen=seen, score=formula, dtype=torch.bfloat16)
        for _ in range(3):
            out = ridgeline.attention(q, k, v, causal=True, score=function)
            assert_within_twice(out, theirs, exact, torch.bfloat16, name)


def small():
    torch.manual_seed(0)
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3)]


def close(score, formula, **options):
    q, k, v = small()
    expected, _ = plain(q, k, v, score=formula)
    assert torch.allclose(ridgeline.attention(q, k, v, score=score, **options), expected, atol=1e-5)


AT, TO = torch.arange(LENGTH)[:, None], torch.arange(LENGTH)[None, :]


def test_functions_written_for_flex_attention_are_taken_as_they_are():
    def alibi(score, batch, head, query, key):
        return score + torch.exp2(-((head + 1) * 8.0 / HEADS)) * (key - query)

    slopes = torch.exp2(-(torch.arange(HEADS)[:, None, None] + 1) * 8.0 / HEADS)
    close(alibi, lambda s: s + slopes * (TO - AT))
    close(lambda s, b, h, i, j: (s / 20).tanh() * 20 - (i - j).abs().clamp(max=9), lambda s: (s / 20).tanh() * 20 - (
        AT - TO).abs().clamp(max=9))  # fmt: skip


def test_positions_are_divided():
    close(lambda s, b, h, i, j: where(i // 8 == j // 8, s, -math.inf), lambda s: s.masked_fill(AT // 8 != TO // 8, -math.inf))
    close(lambda s, b, h, i, j: s + (i + 2 * j) % 5, lambda s: s + (AT + 2 * TO) % 5)


def test_whole_tensors_are_broadcast():
    bias = torch.randn(HEADS, 1, LENGTH)
    close(lambda s, b, h, i, j: s * 0.5 + bias, lambda s: s * 0.5 + bias)
    one = torch.tensor(2.5)
    close(lambda s, b, h, i, j: one * s, lambda s: one * s)


def test_tables_are_read_along_diagonals_from_either_side_and_from_the_end():
    table = torch.randn(HEADS, 2 * LENGTH + 5)
    steps = torch.randn(BATCH, 3 * LENGTH)
    n = LENGTH
    close(lambda s, b, h, i, j: s + table[h, i - j + n], lambda s: s + table[:, AT - TO + n])
    close(lambda s, b, h, i, j: s + table[h, n + 2 + j - i], lambda s: s + table[:, TO - AT + n + 2])
    close(lambda s, b, h, i, j: s + steps[b, -(i - j) + n], lambda s: s + steps[:, None][:, :, TO - AT + n])
    close(lambda s, b, h, i, j: s + table[1, i - j + n], lambda s: s + table[1, AT - TO + n])
    close(lambda s, b, h, i, j: s + table[h, i - j], lambda s: s + table[:, AT - TO])  # counts from the end
    close(lambda s, b, h, i, j: s + table[h, i + j], lambda s: s + table[:, AT + TO])
    with pytest.raises(ridgeline.InvalidArgument, match="an axis of"):
        close(lambda s, b, h, i, j: s + table[h, i - j + 2 * n], lambda s: s)


def test_a_computed_index_that_was_first_used_in_inference_mode_has_gradients_later():
    q, k, v = small()
    table = torch.rand(HEADS, LENGTH * LENGTH, requires_grad=True)

    def score(s, b, h, i, j):
        return s + table[h, i * j]

    with torch.inference_mode():
        first = ridgeline.attention(q, k, v, score=score)
    out = ridgeline.attention(q, k, v, score=score)
    out.square().sum().backward()
    assert torch.equal(out, first) and table.grad.abs().max() > 0


def test_tables_are_read_at_the_larger_the_smaller_and_the_chosen_of_two_positions():
    table = torch.randn(HEADS, LENGTH)
    close(lambda s, b, h, i, j: s + table[h, maximum(i - j, 0)], lambda s: s + table[:, (AT - TO).clamp(0)])
    close(lambda s, b, h, i, j: s + table[h, minimum(i, 5)], lambda s: s + table[:, AT.clamp(max=5)])
    close(lambda s, b, h, i, j: s + table[h, torch.clamp(i - j, -3, 4) + 3], lambda s: s + table[:, (AT - TO).clamp(-3, 4) + 3])
    close(lambda s, b, h, i, j: s + table[h, where(i < j, 2, i - j)], lambda s: s + table[:, torch.where(AT < TO, 2, AT - TO)])
    close(lambda s, b, h, i, j: s + table[h, where(True, i, 0)], lambda s: s + table[:, AT])
    with pytest.raises(ridgeline.Unsupported, match="more than whole numbers"):
        close(lambda s, b, h, i, j: s + table[h, i / 2], lambda s: s)


def test_tables_along_diagonals_have_gradients_whatever_stands_before_and_make_no_matrix():
    torch.manual_seed(0)
    n = LENGTH
    batches, heads = torch.arange(BATCH)[:, None, None, None], torch.arange(HEADS)[:, None, None]
    for table, score, formula in [
        (torch.randn(HEADS, 3 * n), lambda s, b, h, i, j: s + table[h, j - i + n + 3],
         lambda s, t: s + t[heads, TO - AT + n + 3]),
        (torch.randn(HEADS + 2, 2 * n)[1:], lambda s, b, h, i, j: s + table[h, i - j + n],
         lambda s, t: s + t[heads, AT - TO + n]),
        (torch.randn(5, HEADS, 2 * n), lambda s, b, h, i, j: s + table[2, h, i - j + n],
         lambda s, t: s + t[2, heads, AT - TO + n]),
        (torch.randn(HEADS, BATCH, 2 * n), lambda s, b, h, i, j: s + table[h, b, i - j + n],
         lambda s, t: s + t[heads, batches, AT - TO + n]),
        (torch.randn(2 * n, HEADS).t(), lambda s, b, h, i, j: s * table[h, i - j + n], lambda s, t: s * t[heads, AT - TO + n]),
        (torch.randn(2 * n), lambda s, b, h, i, j: s + table[i - j + n], lambda s, t: s + t[AT - TO + n]),
    ]:  # fmt: skip
        table.requires_grad_()
        q, k, v = small()
        out = ridgeline.attention(q, k, v, score=score)
        expected, _ = plain(q, k, v, score=lambda s: formula(s, table))
        assert torch.allclose(out, expected, atol=1e-5)
        d_out = torch.randn_like(out)
        (got,), (right,) = (torch.autograd.grad(x, table, d_out) for x in (out, expected))
        assert torch.allclose(got, right, atol=1e-4), score.__code__.co_names
    ints = torch.randint(0, 5, (HEADS, 2 * n))
    close(lambda s, b, h, i, j: s + ints[h, i - j + n], lambda s: s + ints[heads, AT - TO + n])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("queries, keys", [(37, 37), (70, 130), (130, 70), (1, 9), (9, 1), (1, 1), (300, 257)])
def test_gradients_along_diagonals_are_sums_and_take_no_matrix(queries, keys, dtype, device):
    torch.manual_seed(0)
    heads, key_heads, width, length = 4, 2, 64, queries + keys - 1
    at, to = torch.arange(queries, device=device)[:, None], torch.arange(keys, device=device)
    for sign, spare, causal, own in [(1, 0, False, True), (-1, 0, True, True), (1, 5, True, False), (-1, 3, False, True)]:
        begin = 0 if spare == 0 else 2
        shift = begin + (keys if sign > 0 else queries) - 1
        table = torch.randn(heads if own else 1, length + spare).to(dtype).to(device).requires_grad_()
        d_out, q = (torch.randn(2, heads, queries, width).to(dtype).to(device) for _ in range(2))
        k, v = (torch.randn(2, key_heads, keys, width).to(dtype).to(device) for _ in range(2))

        def score(s, b, h, i, j, table=table, sign=sign, shift=shift, own=own, causal=causal):
            distance = i - j + shift if sign > 0 else j - i + shift
            value = s + (table[h, distance] if own else table[0, distance])
            return where(i >= j, value, -math.inf) if causal else value

        def reference(precision, rounding, table=table, sign=sign, shift=shift, causal=causal, q=q, k=k, v=v, d_out=d_out):
            own_table = table.detach().to(precision).requires_grad_()
            distance = sign * (at - to) + shift
            hidden = (at < to) if causal else torch.zeros(1, 1, dtype=torch.bool, device=device)
            value, _ = plain(*(x.to(precision) for x in (q, k, v)), dtype=rounding,
                             score=lambda s: (s + own_table[:, distance]).masked_fill(hidden, -math.inf))  # fmt: skip
            return torch.autograd.grad(value, own_table, d_out.to(precision))[0]

        got = torch.autograd.grad(ridgeline.attention(q, k, v, score=score, enable_gqa=True), table, d_out)[0]
        assert got.shape == table.shape and got.dtype == dtype
        exact, theirs = reference(torch.float64, None), reference(torch.float32, dtype)
        assert_within_twice(got, theirs, exact, dtype, f"{sign}, {spare}", rounded_output(q, k))
        assert (got[:, :begin] == 0).all() and (got[:, begin + length :] == 0).all()


def test_gradients_along_diagonals_of_a_table_that_is_expanded():
    q, k, v = small()
    row = torch.randn(HEADS, 1, requires_grad=True)
    table = row.expand(HEADS, 2 * LENGTH)
    out = ridgeline.attention(q, k, v, score=lambda s, b, h, i, j: s * table[h, i - j + LENGTH])
    expected, _ = plain(q, k, v, score=lambda s: s * row[:, None])
    (got,), (right,) = (torch.autograd.grad(x.square().sum(), row) for x in (out, expected))
    assert torch.allclose(got, right, rtol=1e-4, atol=1e-3)


def test_operators_mean_what_they_mean_on_tensors():
    close(lambda s, b, h, i, j: abs(-s) ** 2 / 4 - 1, lambda s: s**2 / 4 - 1)
    close(lambda s, b, h, i, j: torch.clamp(s, -1, 1) + torch.maximum(s, i * 0.01), lambda s: s.clamp(-1, 1) + torch.maximum(
        s, AT * 0.01))  # fmt: skip
    close(lambda s, b, h, i, j: where(~(i < j) | (h == 1), s, 1 - s), lambda s: torch.where(
        ~(AT < TO) | (torch.arange(HEADS)[:, None, None] == 1), s, 1 - s))  # fmt: skip
    close(lambda s, b, h, i, j: torch.clamp(s, min=-1) + torch.clamp(s, max=1), lambda s: s.clamp(min=-1) + s.clamp(max=1))
    close(lambda s, b, h, i, j: ridgeline.score.clamp(s, -1, 1) * np.float32(0.5), lambda s: s.clamp(-1, 1) * 0.5)
    close(lambda s, b, h, i, j: where(i - j < np.int64(5), np.clip(s, -1, 1), s), lambda s: torch.where(
        AT - TO < 5, s.clamp(-1, 1), s))  # fmt: skip
    close(lambda s, b, h, i, j: torch.exp(-torch.sigmoid(s)) + torch.sin(j), lambda s: torch.exp(-torch.sigmoid(s)) + torch.sin(
        TO))  # fmt: skip


@pytest.mark.parametrize("score", [
    lambda s, b, h, i, j: s * [1.0, 2.0][h],
    lambda s, b, h, i, j: s * np.ones(2, "float32")[h],
    lambda s, b, h, i, j: s + math.sqrt(j),
])  # fmt: skip
def test_what_reads_a_value_says_what_to_write_instead(score):
    with pytest.raises(ridgeline.InvalidArgument, match="ridgeline.score"):
        close(score, None)


def test_a_causal_mask_and_a_window_are_taken_out_so_that_tiles_are_skipped():
    from ridgeline import _trace

    for function, causal, window in [
        (lambda s, b, h, i, j: where(i >= j, s, -math.inf), 1, 0),
        (lambda s, b, h, i, j: where((j <= i) & (i - j < 9), s * 2, -math.inf), 1, 9),
        (lambda s, b, h, i, j: where((i - j <= 8) & (j <= i) & (h > 0), s, -math.inf), 1, 9),
        (lambda s, b, h, i, j: where((i >= j) & (i - j < math.inf), s, -math.inf), 1, 0),
        (lambda s, b, h, i, j: where((i >= j) & (i - j < 2**63), s, -math.inf), 1, 0),
        (lambda s, b, h, i, j: where(i - j < 9, s, -math.inf), 0, 0),
        (lambda s, b, h, i, j: where(i > j, s, -math.inf), 0, 0),
        (lambda s, b, h, i, j: where(i >= j, s, 0), 0, 0),
    ]:
        traced = _trace.trace(function)
        assert (traced.causal, traced.window) == (causal, window)
    seen = (AT >= TO) & (AT - TO < 9)
    close(lambda s, b, h, i, j: where((j <= i) & (i - j < 9), s * 2, -math.inf), lambda s: (s * 2).masked_fill(~seen, -math.inf))
    for wide in (math.inf, 1e30):
        close(lambda s, b, h, i, j, n=wide: where((i >= j) & (i - j < n), s, -math.inf), lambda s: s.masked_fill(AT < TO, -math.inf))


@pytest.mark.parametrize("first", [0, 2**24, -(2**31), 2**31 - LENGTH])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_integers_are_compared_exactly(dtype, first):
    documents = torch.arange(LENGTH, dtype=dtype) // 5 + first
    close(lambda s, b, h, i, j: where(documents[i] == documents[j], s, -math.inf),
          lambda s: s.masked_fill(documents[:, None] != documents, -math.inf))  # fmt: skip
    close(lambda s, b, h, i, j: where(documents[i] >= documents[j], s, -math.inf),
          lambda s: s.masked_fill(documents[:, None] < documents, -math.inf))  # fmt: skip


def test_integers_that_need_more_than_32_bits_are_refused():
    documents = torch.arange(LENGTH) // 5 + 2**32
    with pytest.raises(ridgeline.InvalidArgument, match="integers from 4294967296 to"):
        close(lambda s, b, h, i, j: where(documents[i] == documents[j], s, -math.inf), None)


def test_a_query_whose_keys_are_all_hidden_gets_zeros():
    q, k, v = (x.requires_grad_() for x in small())
    out = ridgeline.attention(q, k, v, score=lambda s, b, h, i, j: where(i > 3, s, -math.inf))
    out.sum().backward()
    assert torch.equal(out[:, :, :4], torch.zeros_like(out[:, :, :4]))
    assert torch.equal(q.grad[:, :, :4], torch.zeros_like(q.grad[:, :, :4])) and torch.isfinite(k.grad).all()


def test_grouped_heads_and_fewer_axes():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 9, 8), torch.randn(1, 2, 9, 8), torch.randn(1, 2, 9, 8)
    slopes = torch.rand(4)
    at, to = torch.arange(9)[:, None], torch.arange(9)
    out = ridgeline.attention(q, k, v, enable_gqa=True, score=lambda s, b, h, i, j: s + slopes[h] * (j - i))
    assert torch.allclose(out, plain(q, k, v, score=lambda s: s + slopes[:, None, None] * (to - at))[0], atol=1e-5)
    table = torch.rand(2, 9)
    out = ridgeline.attention(*(x[0] for x in (k, k, v)), score=lambda s, b, h, i, j: s + table[b, j])
    assert torch.allclose(out, plain(k[0], k[0], v[0], score=lambda s: s + table[:, None, :])[0], atol=1e-5)


def test_a_function_is_compiled_once_however_often_it_is_written():
    from ridgeline import _trace

    q, k, v = small()
    before = len(_trace._programs)
    for cap in (11.0, 11.0, 11.0):
        ridgeline.attention(q, k, v, score=lambda s, b, h, i, j, cap=cap: cap * torch.tanh(s / cap))
    assert len(_trace._programs) == before + 1


def test_a_trace_is_kept_only_while_nothing_that_it_saw_has_changed():
    from ridgeline.torch import _score

    q, k, v = small()
    table, factor = torch.rand(HEADS), 2.0

    def attend():
        return ridgeline.attention(q, k, v, score=lambda s, b, h, i, j: s * factor + table[h] * j)

    def expected(slopes, factor):
        return plain(q, k, v, score=lambda s: s * factor + slopes[:, None, None] * TO)[0]

    for _ in range(2):
        assert torch.allclose(attend(), expected(table, 2.0), atol=1e-5)
    kept = len(_score._traces)
    assert torch.allclose(attend(), expected(table, 2.0), atol=1e-5) and len(_score._traces) == kept
    table.add_(1)  # in place
    assert torch.allclose(attend(), expected(table, 2.0), atol=1e-5) and len(_score._traces) == kept
    table = torch.rand(HEADS)  # another tensor
    assert torch.allclose(attend(), expected(table, 2.0), atol=1e-5) and len(_score._traces) == kept
    factor = 3.0
    assert torch.allclose(attend(), expected(table, 3.0), atol=1e-5) and len(_score._traces) == kept + 1

    class Holder:
        table = torch.rand(HEADS)

    for value in (torch.rand(HEADS), torch.rand(HEADS)):  # hidden in an object, or turned into a number: never kept
        Holder.table = value
        for score in (lambda s, b, h, i, j: s + Holder.table[h] * j, lambda s, b, h, i, j: s + float(value[0]) * j):
            out = ridgeline.attention(q, k, v, score=score)
            slopes = value if "Holder" in score.__code__.co_freevars else value[:1].expand(HEADS)
            assert torch.allclose(out, plain(q, k, v, score=lambda s, slopes=slopes: s + slopes[:, None, None] * TO)[0], atol=1e-5)
    assert len(_score._traces) == kept + 1


def test_one_table_under_two_names_is_not_taken_for_two():
    q, k, v = small()

    def attend(first, second):
        return ridgeline.attention(q, k, v, score=lambda s, b, h, i, j: s + first[h] - second[h] * j)

    one, two = torch.rand(HEADS), torch.rand(HEADS)
    for first, second in ((one, one), (one, two), (two, two)):
        expected, _ = plain(q, k, v, score=lambda s, a=first, b=second: s + a[:, None, None] - b[:, None, None] * TO)
        assert torch.allclose(attend(first, second), expected, atol=1e-5)
