"""Six score functions beside FlexAttention: values, times of both directions, and the time to the first gradient."""

import time

import torch

import ridgeline

from .harness import bar, failed

SIZES = ((2, 16, 2048, 64), (1, 16, 4096, 128))  # batch, heads, length, width
TINY = ((1, 2, 128, 16),)
LARGEST_DIFFERENCE = 0.06  # of outputs of order 1 in bf16
LARGEST_GRADIENT_DIFFERENCE = 0.02  # relative, of the norm
MOST_SHARE_OF_FIRST_RESULT = 0.1


def _first_s(bench, call, inputs, d_out):
    """Seconds to the first gradients; and the gradients."""
    bench.wait()
    start = time.perf_counter()
    made = torch.autograd.grad(call(), inputs, d_out)
    bench.wait()
    return time.perf_counter() - start, made


def scores(bench, names):
    """Rows of these functions. A block mask stands for each mask on FlexAttention's side, as its documentation has it."""
    from support import plain
    from test_torch_score import Six
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if bench.real:
        import torch._functorch.config

        torch._functorch.config.donated_buffer = False  # a backward is timed again and again
    warm = bench.inputs(1, 1, 16, 64)
    ridgeline.attention(*warm)  # the context of the GPU
    for size in SIZES if bench.real else TINY:
        batch, heads, length, width = size
        six = Six(bench.device, torch.bfloat16, length, heads, batch, window=length // 4, sinks=4)
        *leaves, d_out = bench.inputs(*size, count=4)
        for leaf in leaves:
            leaf.requires_grad_()
        for name in names:
            function, formula, tables = six.cases[name]
            torch._dynamo.reset()  # beyond a few functions PyTorch would stop to compile them
            inputs, title = [*leaves, *tables], f"{name}, {length} x {width}"
            flex = torch.compile(flex_attention)
            blocks = []

            def ours(function=function):
                return ridgeline.attention(*leaves, score=function)

            def theirs(function=function, formula=formula, tables=tables, name=name, flex=flex, blocks=blocks):
                if not bench.real:  # FlexAttention has no gradients on the CPU
                    return plain(*leaves, score=lambda s: formula(s, *tables))[0]
                if name not in six.masks:
                    return flex(*leaves, score_mod=function)
                if not blocks:
                    blocks.append(create_block_mask(six.masks[name], batch, None, length, length, bench.device))
                return flex(*leaves, block_mask=blocks[0])

            try:
                our_first, our_gradients = _first_s(bench, ours, inputs, d_out)
                their_first, their_gradients = _first_s(bench, theirs, inputs, d_out)
                yield bar(f"{title}: largest difference", (ours() - theirs()).abs().max().item(), most=LARGEST_DIFFERENCE)
                apart = [((a - b).float().norm() / b.float().norm().clamp_min(1e-6)).item()
                         for a, b in zip(our_gradients, their_gradients)]  # fmt: skip
                yield bar(f"{title}: of gradients of q, k, v, relative", max(apart[:3]), most=LARGEST_GRADIENT_DIFFERENCE,
                          unit=f"(tables {max(apart[3:]):.3f})" if tables else "")  # fmt: skip
                with bench.alone():
                    a, b = bench.in_turns_ms(ours, theirs, 9, 10)  # with autograd: without it PyTorch would compile anew
                    yield bar(f"{title}: forward", b / a, least=1.0, unit=f"x ({b:.3f} -> {a:.3f} ms)")
                    outs = ours(), theirs()
                    a, b = bench.in_turns_ms(*(lambda out=out: torch.autograd.grad(out, inputs, d_out, retain_graph=True)
                                               for out in outs), 9, 5)  # fmt: skip
                    yield bar(f"{title}: backward", b / a, least=1.0, unit=f"x ({b:.3f} -> {a:.3f} ms)")
                yield bar(f"{title}: first gradient, share", our_first / their_first, most=MOST_SHARE_OF_FIRST_RESULT,
                          unit=f"({our_first:.2f} of {their_first:.2f} s)")  # fmt: skip
            except Exception as problem:
                yield failed(title, f"{type(problem).__name__}: {problem}")
