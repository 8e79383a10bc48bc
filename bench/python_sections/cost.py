"""Host cost of a call: in excess of the same call through the C interface, and with autograd against SDPA."""

import torch
import torch.nn.functional as F

import ridgeline
from ridgeline.torch import _kernels

from .harness import Row, bar

MOST_ABOVE_C_US = 15
MOST_SHARE_OF_SDPA = 0.5


class _Nothing(torch.autograd.Function):
    """The cost of any autograd.Function of this form: allocates and saves the same tensors, and computes nothing."""

    @staticmethod
    def forward(ctx, q, k, v, _):
        out, lse = torch.empty_like(q), torch.empty(q.shape[:-1], device=q.device)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, d_out):
        return *(torch.empty_like(x) for x in ctx.saved_tensors[:3]), None


def cost(bench):
    shape = 1, 4, 128, 64
    q, k, v = bench.inputs(*shape)
    plan = _kernels.plan(q, k, v, 0.0, 0, 0, False)
    out, lse = plan.run(q, k, v)
    stream = torch.cuda.current_stream().cuda_stream if bench.on_gpu else 0
    room = torch.empty(max(1, plan.call.workspace_bytes), dtype=torch.uint8, device=bench.device)
    workspace = (room.data_ptr(), plan.call.workspace_bytes) if bench.on_gpu and plan.call.workspace_bytes else (0, 0)
    run = plan.call.pack(plan.call.size, plan.call.handle, stream, *workspace, *(x.data_ptr() for x in (q, k, v, out, lse)))
    sdpa = F.scaled_dot_product_attention
    of_c, direct, of_sdpa, by_op = bench.host_us(
        lambda: _kernels.start(run), lambda: ridgeline.attention(q, k, v), lambda: sdpa(q, k, v),
        lambda: torch.ops.ridgeline.attention(q, k, v, 0.0, 0, 0, False))  # fmt: skip
    yield Row("C call", f"{of_c:.1f} us")
    yield bar("attention() above the C call", direct - of_c, most=MOST_ABOVE_C_US, unit=f"us ({direct:.1f} in all)")
    yield Row("SDPA without gradients", f"{of_sdpa:.1f} us")
    yield Row("torch.ops.ridgeline.attention", f"{by_op:.1f} us")
    leaves = bench.inputs(*shape, grad=True)

    def forward(attend):
        return lambda: attend(*leaves)

    def step(attend):
        return lambda: torch.autograd.grad(attend(*leaves), leaves, out)

    for name, of in (("forward with autograd", forward), ("forward and backward", step)):
        ours, theirs, nothing = bench.host_us(of(ridgeline.attention), of(sdpa), of(lambda *x: _Nothing.apply(*x, 0)))
        yield bar(f"{name}, share of SDPA's", ours / theirs, most=MOST_SHARE_OF_SDPA, unit=f"({ours:.1f} of {theirs:.1f} us)")
        yield Row(f"{name}, an autograd.Function that computes nothing", f"{nothing:.1f} us, {nothing / theirs:.2f} of SDPA's")

    for name, replace in (("activate()", None), ("activate(replace=False)", False)):
        with ridgeline.torch.activate(replace=replace):
            ours, both = bench.host_us(lambda: F.scaled_dot_product_attention(q, k, v), step(F.scaled_dot_product_attention))
        yield Row(f"SDPA under {name}", f"{ours:.1f} us, forward and backward {both:.1f} us")
