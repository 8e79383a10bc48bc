"""attention() on PyTorch tensors: values and gradients, memory, modes of autograd, autocast, streams."""

import gc
import os
import threading

import pytest
import torch
from support import DEVICES, check_problem, errors, plain, random_problem, visible

import ridgeline
import ridgeline.torch

PROBLEMS = int(os.environ.get("RIDGELINE_PROBLEMS", "60"))


def inputs(*shape, device="cpu", dtype=torch.float32, count=3, seed=0, grad=True):
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randn(*shape, generator=generator).to(dtype).to(device) for _ in range(count)]
    return [x.requires_grad_() for x in made] if grad else made


@pytest.mark.parametrize("device", DEVICES)
def test_random_problems_are_as_exact_as_plain_formulas(device):
    for seed in range(PROBLEMS):
        check_problem(random_problem(seed, device), ridgeline.attention)


@pytest.mark.filterwarnings("ignore:Input #")  # of single precision
@pytest.mark.parametrize("device", DEVICES)
def test_gradcheck(device):
    q, k, v = inputs(1, 2, 6, 8, device=device)

    def attend(q, k, v):
        return ridgeline.attention(q, k, v, causal=True, window=4)

    assert torch.autograd.gradcheck(attend, (q, k, v), eps=1e-2, atol=1e-2)


def test_the_output_lies_as_q_does_and_gradients_as_their_inputs():
    q, k, v = (x.transpose(1, 2) for x in inputs(2, 9, 3, 8, grad=False))
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    out = ridgeline.attention(*leaves)
    assert out.stride() == q.stride()
    out.backward(torch.ones_like(out))
    assert [x.grad.stride() for x in leaves] == [x.stride() for x in (q, k, v)]


def test_the_gradient_of_a_sum_is_served_though_it_is_one_element():
    q, k, v = inputs(1, 2, 5, 8)
    ridgeline.attention(q, k, v).sum().backward()
    expected = torch.autograd.grad(plain(q, k, v)[0].sum(), (q, k, v))
    for x, gradient in zip((q, k, v), expected):
        assert errors(x.grad, gradient) < 1e-5


def test_only_what_needs_gradients_gets_them():
    q, k, v = inputs(1, 1, 5, 8)
    k.requires_grad_(False)
    out, lse = ridgeline.attention(q, k, v, return_lse=True)
    assert out.requires_grad and not lse.requires_grad
    out.sum().backward()
    assert q.grad is not None and k.grad is None
    with torch.no_grad():
        assert not ridgeline.attention(q, k, v).requires_grad
    detached, _ = ridgeline.attention(q.detach(), k, v.detach(), return_lse=True)
    assert not detached.requires_grad


CALLS = {
    "plain": lambda q, k, v: ridgeline.attention(q, k, v),
    "rows": lambda q, k, v: ridgeline.attention(q, k, v, return_lse=True)[0],
    "op": lambda q, k, v: ridgeline.attention(q, torch._neg_view(k), v),
    "course": lambda q, k, v: ridgeline.torch.FlashAttention.apply(q[0], k[0], v[0]),
    "score": lambda q, k, v: ridgeline.attention(q, k, v, score=lambda s, b, h, i, j: 2 * s),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_second_derivative_is_refused(call):
    q, k, v = inputs(1, 1, 4, 8)
    out = CALLS[call](q, k, v)
    (gradient,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    with pytest.raises(ridgeline.Unsupported, match="gradients of gradients"):
        (out.sum() + gradient.square().sum()).backward()


@pytest.mark.parametrize("call", CALLS)
def test_a_tangent_of_forward_mode_is_refused(call):
    from torch.autograd import forward_ad

    if call == "course":
        pytest.skip("torch.autograd.Function refuses it")
    q, k, v = inputs(1, 1, 4, 8, grad=False)
    with forward_ad.dual_level():
        expected = CALLS[call](q, k, v)
        with pytest.raises(ridgeline.Unsupported, match="forward-mode"):
            CALLS[call](forward_ad.make_dual(q, torch.ones_like(q)), k, v)
        table = forward_ad.make_dual(torch.rand(1), torch.ones(1))
        with pytest.raises(ridgeline.Unsupported, match="forward-mode"):
            ridgeline.attention(q, k, v, score=lambda s, b, h, i, j: s * table[h])
    assert torch.equal(expected, CALLS[call](q, k, v))


def test_inputs_that_are_changed_before_the_backward_are_noticed():
    q, k, v = inputs(1, 1, 4, 8)
    hidden = k * 1
    out = ridgeline.attention(q, hidden, v)
    with torch.no_grad():
        hidden.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_autocast_decides_the_dtype():
    q, k, v = inputs(1, 2, 5, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = ridgeline.attention(q, k, v.to(torch.bfloat16))
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    assert q.grad.dtype == torch.float32


def test_a_negated_view_is_read_negated():
    q, k, v = inputs(1, 1, 4, 8, grad=False)
    expected = ridgeline.attention(-q, k, v)
    assert torch.equal(ridgeline.attention(torch._neg_view(q), k, v), expected)


def test_threads_share_no_state_of_calls():
    problems = [inputs(1, 2, 5 + i % 3, 8, seed=i) for i in range(40)]

    def gradients(each):
        return torch.autograd.grad(ridgeline.attention(*each, causal=True).square().sum(), each)

    expected = [gradients(each) for each in problems]
    wrong = []

    def work():
        for each, right in zip(problems, expected):
            if not all(torch.equal(a, b) for a, b in zip(gradients(each), right)):
                wrong.append(each)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_of_many_layouts_are_forgotten_one_day():
    from ridgeline import _calls

    kept = _calls.Kept()
    for i in range(_calls.MOST_KEPT + 5):
        assert kept.get(i) is None
        kept.add(i, object())
    assert len(kept) <= _calls.MOST_KEPT
    assert kept.get(i) is not None


def test_a_run_goes_on_when_its_plan_is_dropped():
    """As by another thread that meets too many shapes."""
    from ridgeline import _calls
    from ridgeline.torch import _kernels

    q, k, v = inputs(1, 1, 50, 24, grad=False)
    run = _kernels.plan(q, k, v, 0.0, 0, 0, False).run
    out, lse = run(q, k, v)
    backward = _kernels.Gradient(q, k, v, out, lse, out, _calls.Options()).run
    first = backward(q, k, v, out, lse, out)
    _kernels._plans.clear()
    gc.collect()
    for length in range(1, 20):  # takes over memory that was freed
        _kernels.plan(q, k[:, :, :length], v[:, :, :length], 0.0, 0, 0, False)
    assert torch.equal(run(q, k, v)[0], out)
    assert all(torch.equal(a, b) for a, b in zip(backward(q, k, v, out, lse, out), first))


def test_a_call_is_prepared_once_for_each_layout_and_addresses_may_be_anywhere():
    from ridgeline.torch import _kernels

    q, k, v = inputs(1, 2, 9, 8, grad=False)
    expected = ridgeline.attention(q, k, v)
    known = len(_kernels._plans)
    memory = torch.zeros(q.numel() + 8)
    for shift in range(6):  # kernels load vectors of 16 bytes where addresses allow it
        moved = memory[shift : shift + q.numel()].view_as(q).copy_(q)
        assert torch.equal(ridgeline.attention(moved, k, v), expected)
    assert len(_kernels._plans) == known


def test_saved_tensors_may_come_back_elsewhere_and_otherwise():
    (q,) = (x.transpose(1, 2).detach().requires_grad_() for x in inputs(2, 9, 3, 8, count=1))
    k, v = (x.transpose(1, 2).detach().requires_grad_() for x in inputs(2, 7, 3, 8, count=2, seed=1))

    def gradients():
        return torch.autograd.grad(ridgeline.attention(q, k, v, causal=True).square().sum(), (q, k, v))

    expected = gradients()
    for moved in (q, k):  # its like comes back contiguous, the others as they were
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x.contiguous() if x.shape == moved.shape else x, lambda x: x.clone()):
            got = gradients()
        assert all(errors(a, b) < 1e-6 for a, b in zip(got, expected))


def test_a_negated_gradient_is_read_negated():
    q, k, v = inputs(1, 1, 4, 8)
    d_out = torch.randn(1, 1, 4, 8)
    expected = torch.autograd.grad(ridgeline.attention(q, k, v), (q, k, v), -d_out)
    got = torch.autograd.grad(ridgeline.attention(q, k, v), (q, k, v), torch._neg_view(d_out))
    assert all(torch.equal(a, b) for a, b in zip(got, expected))


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@needs_gpu
def test_work_goes_to_the_current_stream_and_tensors_of_two_devices_are_refused():
    q, k, v = inputs(1, 2, 64, 64, device="cuda", dtype=torch.bfloat16, grad=False)
    expected = ridgeline.attention(q, k, v)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        late = q * 2  # after the wait; on another stream this would be read too early
        out = ridgeline.attention(late / 2, k, v)
    stream.synchronize()
    assert torch.equal(out, expected)
    with pytest.raises(ridgeline.InvalidArgument, match="k is on cpu, q on cuda:0"):
        ridgeline.attention(q, k.cpu(), v)


@needs_gpu
def test_a_captured_call_is_replayed_and_one_that_is_not_compiled_is_refused():
    q, k, v = inputs(1, 2, 64, 64, device="cuda", dtype=torch.bfloat16, grad=False)
    expected = ridgeline.attention(q, k, v, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = ridgeline.attention(q, k, v, causal=True)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)
    odd = [torch.randn(1, 1, 8, 24, device="cuda", dtype=torch.float16) for _ in range(3)]
    with pytest.raises(ridgeline.NotReady, match="captured"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            ridgeline.attention(*odd, score=lambda s, b, h, i, j: s * 0.9876 + i * 0.0123)


@needs_gpu
def test_memory_is_pytorchs_own():
    q, k, v = inputs(2, 4, 256, 64, device="cuda", dtype=torch.bfloat16)
    ridgeline.attention(q, k, v).sum().backward()
    torch.cuda.synchronize()
    free, _ = torch.cuda.mem_get_info()
    for _ in range(20):
        ridgeline.attention(q, k, v).sum().backward()
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info()[0] >= free - (4 << 20)


def test_seen_keys_of_the_tests_themselves():
    assert visible(3, 5, "bottom_right", 2).int().tolist() == [[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
