"""Six score functions against FlexAttention: values, times of both passes, times to the first output and gradient."""

import tempfile
import time

import torch

import ridgeline

from . import use_new_caches
from .harness import bar, failed

SIZES = {"cuda": ((2, 16, 2048, 64), (1, 16, 4096, 128)), "cpu": ((1, 8, 1024, 64),)}  # batch, heads, length, width
TINY = ((1, 2, 128, 16),)
DTYPES = {"cuda": (torch.bfloat16,), "cpu": (torch.float32, torch.bfloat16)}
LARGEST_DIFFERENCE = 0.06  # of outputs of order 1 in bf16
LARGEST_GRADIENT_DIFFERENCE = 0.02  # relative, of the norm
WARM = (1, 1, 16, 32)  # unlike all sizes above
MOST_SHARE_OF_FIRST_RESULT = 0.1


def _first_s(bench, call, inputs, d_out):
    """Returns the seconds to the first output and to the first gradients, and the gradients; of a call without gradients
    the first alone, and None."""
    bench.wait()
    start = time.perf_counter()
    out = call()
    bench.wait()
    to_output = time.perf_counter() - start
    if not out.requires_grad:
        return to_output, None, None
    made = torch.autograd.grad(out, inputs, d_out)
    bench.wait()
    return to_output, time.perf_counter() - start, made


def _flex_attention(bench, function, mask, leaves):
    """Returns a compiled call of FlexAttention; for a mask with a block mask, as documented, made by the first call. On a
    CPU it has no gradients, and refuses tensors that want them."""
    import torch._functorch.config
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._functorch.config.donated_buffer = False  # one backward is timed repeatedly
    flex, blocks, (batch, _, length, _) = torch.compile(flex_attention), [], leaves[0].shape
    if not bench.on_gpu:
        leaves = [leaf.detach() for leaf in leaves]

    @torch.set_grad_enabled(bench.on_gpu)
    def call():
        if mask is None:
            return flex(*leaves, score_mod=function)
        if not blocks:
            blocks.append(create_block_mask(mask, batch, None, length, length, bench.device))
        return flex(*leaves, block_mask=blocks[0])

    return call


def scores(bench, name, size, dtype):
    """Yields the rows of a function at a size, in its own process, where neither side has compiled anything or finds it
    on disk. Times to first results start when both are imported and have a GPU context: PyTorch has made the tensors and
    a gradient, the first of which imports modules for a second, and ours has run plain attention of another width. On a
    CPU gradients are compared with those of the formula in fp64."""
    from support import plain
    from test_torch_score import Six

    use_new_caches(tempfile.mkdtemp(dir=bench.folder))
    batch, heads, length, width = size
    six = Six(bench.device, dtype, length, heads, batch, window=length // 4, sinks=4)
    *leaves, d_out = bench.inputs(*size, dtype=dtype, count=4)
    for leaf in leaves:
        leaf.requires_grad_()
    function, formula, tables = six.cases[name]
    inputs, title = [*leaves, *tables], f"{name}, {length} x {width}, {str(dtype).removeprefix('torch.')}"

    def ours():
        return ridgeline.attention(*leaves, score=function)

    def by_formula(inputs=inputs):
        return plain(*inputs[:3], score=lambda s: formula(s, *inputs[3:]))[0]

    def exact_gradients():  # a formula in bf16 would round distances and scores
        exact = [x.detach().double().requires_grad_() for x in inputs]
        return torch.autograd.grad(by_formula(exact), exact, d_out.double())

    try:
        theirs = by_formula if bench.is_tiny else _flex_attention(bench, function, six.masks.get(name), leaves)
        ridgeline.attention(*bench.inputs(*WARM, dtype=dtype))
        torch.autograd.grad(leaves[0].sum(), leaves[0], torch.ones((), dtype=dtype, device=bench.device))
        our_output, our_gradient, our_gradients = _first_s(bench, ours, inputs, d_out)
        their_output, their_gradient, their_gradients = _first_s(bench, theirs, inputs, d_out)
        has_gradients = their_gradients is not None
        yield bar(f"{title}: largest difference", (ours() - theirs()).abs().max().item(), most=LARGEST_DIFFERENCE)
        if not has_gradients:
            their_gradients = exact_gradients()
        apart = [((a.to(b.dtype) - b).float().norm() / b.float().norm().clamp_min(1e-6)).item()
                 for a, b in zip(our_gradients, their_gradients)]  # fmt: skip
        yield bar(f"{title}: of gradients of q, k, v, relative", max(apart[:3]), most=LARGEST_GRADIENT_DIFFERENCE,
                  unit=f"(tables {max(apart[3:]):.3f})" if tables else "")  # fmt: skip
        with bench.alone(), torch.set_grad_enabled(has_gradients):  # with autograd; without it PyTorch would recompile
            a, b = bench.in_turns_ms(ours, theirs, 9, 10)
            yield bar(f"{title}: forward", b / a, least=1.0, unit=f"x ({b:.3f} -> {a:.3f} ms)")
        firsts = [("output", our_output, their_output)]
        if has_gradients:
            with bench.alone():
                outs = ours(), theirs()
                a, b = bench.in_turns_ms(*(lambda out=out: torch.autograd.grad(out, inputs, d_out, retain_graph=True)
                                           for out in outs), 9, 5)  # fmt: skip
                yield bar(f"{title}: backward", b / a, least=1.0, unit=f"x ({b:.3f} -> {a:.3f} ms)")
            firsts.append(("gradient", our_gradient, their_gradient))
        for what, a, b in firsts:
            yield bar(f"{title}: first {what}, share", a / b, most=MOST_SHARE_OF_FIRST_RESULT, unit=f"({a:.2f} of {b:.2f} s)")
    except Exception as problem:
        yield failed(title, f"{type(problem).__name__}: {problem}")
