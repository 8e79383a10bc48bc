"""activate(): scaled_dot_product_attention on our kernels, and what falls through."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from support import DEVICES, errors

import ridgeline
import ridgeline.torch
from ridgeline.torch import _kernels, _sdpa

if not hasattr(F, "scaled_dot_product_attention"):

    def test_an_old_pytorch_is_named():
        with pytest.raises(ridgeline.Unsupported, match="no scaled_dot_product_attention"):
            ridgeline.torch.activate()

else:
    ways = pytest.mark.parametrize("replace", [None, False, True] if _sdpa._HAS_REGISTRY else [True], ids=str)

    @pytest.fixture
    def calls(monkeypatch):
        """How often our forward ran."""
        made = []
        start, forward_bytes = _kernels.start, 80  # a run with five addresses

        def count(run):
            if len(run) == forward_bytes:
                made.append(run)
            return start(run)

        monkeypatch.setattr(_kernels, "start", count)
        _sdpa._said.clear()
        return made

    def inputs(device="cpu", dtype=torch.float32):
        torch.manual_seed(0)
        return [torch.randn(2, 4, 33, 32).to(dtype).to(device).requires_grad_() for _ in range(3)]

    @ways
    @pytest.mark.parametrize("device", DEVICES)
    def test_values_and_gradients_are_those_of_pytorch_and_our_kernels_ran(replace, device, calls):
        leaves = inputs(device, torch.float32 if device == "cpu" else torch.bfloat16)
        tolerance = 1e-5 if device == "cpu" else 5e-2

        def run(is_causal):
            out = F.scaled_dot_product_attention(*leaves, is_causal=is_causal)
            return out, *torch.autograd.grad(out.square().sum(), leaves)

        expected = [run(True), run(False)]
        assert not calls
        with ridgeline.torch.activate(replace=replace):
            got = [run(True), run(False)]
        assert len(calls) == 2
        for a, b in zip(got, expected):
            assert all(errors(x, y) < tolerance * 10 for x, y in zip(a, b))
        run(True)
        assert len(calls) == 2

    @ways
    def test_what_is_not_served_falls_through_and_says_so_once(replace, calls):
        q, k, v = inputs()
        mask = torch.randn(33, 33)
        expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        with ridgeline.torch.activate(replace=replace), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(3):
                out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            out.sum().backward()
            F.scaled_dot_product_attention(*(x.double() for x in (q, k, v)))
        texts = [str(each.message) for each in said if "ridgeline" in str(each.message)]
        assert torch.equal(out, expected) and not calls
        assert len(texts) == 2 and "attn_mask" in texts[0] and "float64" in texts[1]

    @ways
    def test_who_disables_flash_attention_gets_pytorchs_kernels_and_second_derivatives(replace, calls):
        q, k, v = inputs()
        with ridgeline.torch.activate(replace=replace), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            (gradient,) = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v).sum(), q, create_graph=True)
            (second,) = torch.autograd.grad(gradient.square().sum(), q)
        assert not calls and second.abs().max() > 0

    @ways
    def test_nested_tensors_run_on_pytorchs_kernels(replace, calls):
        x = torch.nested.nested_tensor([torch.randn(2, 3, 8), torch.randn(2, 5, 8)])
        expected = F.scaled_dot_product_attention(x, x, x)
        with ridgeline.torch.activate(replace=replace):
            out = F.scaled_dot_product_attention(x, x, x)
        assert all(torch.equal(a, b) for a, b in zip(out.unbind(), expected.unbind()))

    @ways
    def test_autocast_leaves_fp64_alone(replace, calls):
        q, k, v = (x.detach().double() for x in inputs())
        expected = F.scaled_dot_product_attention(q, k, v)
        with ridgeline.torch.activate(replace=replace), torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(F.scaled_dot_product_attention(q, k, v), expected)

    @ways
    def test_transforms_run_on_pytorchs_kernels(replace, calls):
        if not hasattr(torch, "func") or not hasattr(torch.library, "register_autograd"):
            pytest.skip("PyTorch older than 2.4")
        q, k, v = (x.detach() for x in inputs())

        def gradient():
            return torch.func.grad(lambda q: F.scaled_dot_product_attention(q, k, v).sum())(q)

        expected = gradient()
        with ridgeline.torch.activate(replace=replace):
            assert errors(gradient(), expected) < 1e-5

    @ways
    def test_a_compiled_model_takes_it_without_a_break(replace, calls):
        if not hasattr(torch, "compile") or not hasattr(torch.library, "register_autograd"):
            pytest.skip("PyTorch older than 2.4")
        q, k, v = inputs()
        expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch._dynamo.reset()
        with ridgeline.torch.activate(replace=replace):
            out = torch.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), fullgraph=True,
                                backend="aot_eager")(q, k, v)  # fmt: skip
            out.sum().backward()
        assert calls and errors(out, expected) < 1e-5

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_activations_overlap_in_any_order(order, calls):
        before, had_cudnn = F.scaled_dot_product_attention, torch.backends.cuda.cudnn_sdp_enabled()
        both = [ridgeline.torch.activate(), ridgeline.torch.activate()]
        both[order[0]].remove()
        F.scaled_dot_product_attention(*inputs())
        assert len(calls) == 1
        if _sdpa._HAS_REGISTRY:
            assert torch.nn.attention.current_flash_attention_impl() == "RIDGELINE"
            assert not torch.backends.cuda.cudnn_sdp_enabled()
        both[order[1]].remove()
        assert F.scaled_dot_product_attention is before and torch.backends.cuda.cudnn_sdp_enabled() == had_cudnn
        if _sdpa._HAS_REGISTRY:
            assert torch.nn.attention.current_flash_attention_impl() is None

    def test_remove_may_be_called_twice_and_leaves_no_trace(calls):
        before = F.scaled_dot_product_attention
        for replace in (True, None) + (False,) * _sdpa._HAS_REGISTRY:
            activation = ridgeline.torch.activate(replace=replace)
            activation.remove()
            activation.remove()
        assert F.scaled_dot_product_attention is before
        F.scaled_dot_product_attention(*inputs())
        assert not calls
