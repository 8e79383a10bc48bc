"""What the tests of the Python package share: attention in plain formulas, random problems, and the rule of errors."""

import math
import random
from dataclasses import dataclass

import torch

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def visible(queries, keys, causal, window, device="cpu"):
    """Which keys each query sees, as a matrix of booleans."""
    i = torch.arange(queries, device=device)[:, None]
    j = torch.arange(keys, device=device)[None, :]
    at = i + (keys - queries if causal == "bottom_right" else 0)
    seen = torch.ones(queries, keys, dtype=torch.bool, device=device)
    if causal:
        seen = seen & (j <= at)
    if window:
        seen = seen & (j > at - window)
    return seen


def plain(q, k, v, seen=None, scale=None, score=None, dtype=None):
    """Attention in plain formulas, in the dtype of q, or with every intermediate result rounded to `dtype`. Gives the
    output and the log-sum-exp; [batch, heads, length, width] or less axes."""
    rounded = (lambda x: x) if dtype is None else (lambda x: x.to(dtype).to(x.dtype))
    if q.dim() == 4 and q.shape[1] != k.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = rounded(q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1])))
    if score is not None:
        scores = rounded(score(scores))
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    lse = torch.logsumexp(scores, -1)
    weights = rounded(torch.exp(scores - torch.where(lse == -math.inf, torch.zeros_like(lse), lse)[..., None]))
    return rounded(weights @ v), lse


def errors(got, exact):
    return (got.detach().double().cpu() - exact.detach().double().cpu()).abs().max().item()


def assert_within_twice(got, theirs, exact, dtype, what="", more=0.0):
    """The largest error is at most twice that of plain formulas in the same dtype, or a few roundings: of the result, and of
    sums of products of order 1, which may cancel to nothing. `more` is what else is to be expected."""
    assert got.shape == exact.shape, what
    assert torch.isfinite(got).all(), what
    sums = torch.finfo(torch.float32).eps * exact.shape[-1]
    floor = 8 * torch.finfo(dtype).eps * exact.abs().max().item() + sums + 1e-5 + more
    assert errors(got, exact) <= 2 * errors(theirs, exact) + floor, (
        f"{what}: {errors(got, exact)} against {errors(theirs, exact)} of plain formulas, floor {floor}"
    )


def rounded_output(q, k, scale=None):
    """What a flash backward may lose that plain formulas do not: it takes sums of d_out * out from an output that was
    rounded, in fp32, and multiplies their errors by q and k."""
    width = q.shape[-1]
    largest = max(q.abs().max().item(), k.abs().max().item())
    sums = q.numel() / (width * k.shape[0] if k.dim() > 2 else width)  # queries that share a key, at most
    rounding = 2 * torch.finfo(q.dtype).eps + 16 * torch.finfo(torch.float32).eps * math.sqrt(sums)
    return rounding * (scale or 1 / math.sqrt(width)) * math.sqrt(width) * largest


@dataclass
class Problem:
    dtype: torch.dtype
    device: str
    q_shape: tuple
    k_shape: tuple
    causal: object
    window: object
    scale: object
    layout: str
    deterministic: bool
    seed: int

    def tensors(self):
        """q, k, v and the gradient of the output."""
        generator = torch.Generator().manual_seed(self.seed)
        made = []
        for shape in (self.q_shape, self.k_shape, self.k_shape, self.q_shape):
            made.append(self._lay(shape, generator))
        return made

    def _lay(self, shape, generator):
        def new(*sizes):
            return torch.randn(*sizes, generator=generator).to(self.dtype).to(self.device)

        if self.layout == "contiguous" or len(shape) == 2:
            return new(*shape)
        if self.layout == "transposed":  # [batch, length, heads, width] in memory
            return new(*shape[:-3], shape[-2], *shape[-3:-2], shape[-1]).transpose(-3, -2) if len(shape) == 4 else (
                new(shape[1], shape[0], shape[2]).transpose(0, 1))  # fmt: skip
        if self.layout == "sliced":
            wide = new(*shape[:-1], shape[-1] + 5)
            return wide[..., 2:-3]
        return new(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2)  # columns


def random_problem(seed, device="cpu"):
    chance = random.Random(seed)
    key_heads = chance.choice((1, 2, 3))
    batch, heads = chance.choice((1, 2, 3)), key_heads * chance.choice((1, 1, 2, 4))
    width = chance.choice((1, 8, 16, 17, 32, 40, 64, 64, 96, 128, 200, 256))
    queries = chance.choice((1, 2, 7, 16, 33, 64, 100, 129))
    keys = chance.choice((queries, queries, queries, 1, 5, 64, 130))
    causal = chance.choice((False, False, True, "bottom_right"))
    axes = chance.choice((4, 4, 4, 3, 2))
    if axes < 4:
        heads = key_heads = 1
    lead, key_lead = (batch, heads)[: max(0, axes - 2)], (batch, key_heads)[: max(0, axes - 2)]
    return Problem(
        dtype=chance.choice(DTYPES),
        device=device,
        q_shape=(*lead, queries, width),
        k_shape=(*key_lead, keys, width),
        causal=causal,
        window=chance.choice((None, 1, 3, 40, 1000)) if causal else None,
        scale=chance.choice((None, None, 0.3, 1.0)),
        layout=chance.choice(("contiguous", "transposed", "sliced", "columns")),
        deterministic=chance.choice((False, True)),
        seed=seed,
    )


def check_problem(problem, attention):
    """Values and gradients of `attention` against plain formulas."""
    q, k, v, d_out = problem.tensors()
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    out, lse = attention(*leaves, causal=problem.causal, window=problem.window, scale=problem.scale, enable_gqa=True,
                         return_lse=True, deterministic=problem.deterministic)  # fmt: skip
    got = torch.autograd.grad(out, leaves, d_out)
    seen = visible(q.shape[-2], k.shape[-2], problem.causal, problem.window, problem.device)

    def reference(dtype, rounding):
        inputs = [x.detach().to(dtype).requires_grad_() for x in (q, k, v)]
        reference_out, reference_lse = plain(*inputs, seen, problem.scale, dtype=rounding)
        return reference_out, reference_lse, torch.autograd.grad(reference_out, inputs, d_out.to(dtype))

    exact, exact_lse, exact_gradients = reference(torch.float64, None)
    theirs, _, their_gradients = reference(torch.float32, problem.dtype)
    exact_gradients, their_gradients = ([torch.nan_to_num(x) for x in each] for each in (exact_gradients, their_gradients))
    assert_within_twice(out, theirs, exact, problem.dtype, f"out of {problem}")
    more = rounded_output(q, k, problem.scale)
    for name, *three in zip("qkv", got, their_gradients, exact_gradients):
        assert_within_twice(*three, problem.dtype, f"d_{name} of {problem}", more)
    hidden = exact_lse == -math.inf
    assert torch.equal(lse == -math.inf, hidden)
    assert torch.allclose(lse[~hidden].double(), exact_lse[~hidden], atol=2e-2 if problem.dtype != torch.float32 else 1e-4)
