"""Attention and its gradients in plain formulas of numpy: exact in float64, or rounded step by step to another dtype."""

import numpy as np


def visible(queries, keys, causal):
    """Returns which keys each query sees, as a boolean matrix."""
    return np.tril(np.ones((queries, keys), bool)) if causal else np.ones((queries, keys), bool)


def attention(q, k, v, d_out, seen, scale, rounded=lambda x: x):
    """Returns the output and the gradients of q, k and v by name; `rounded` is applied to every intermediate result."""
    transposed = lambda x: np.swapaxes(x, -1, -2)  # noqa: E731
    scores = np.where(seen, rounded(rounded(q @ transposed(k)) * scale), -np.inf)
    exponentials = rounded(np.exp(scores - scores.max(-1, keepdims=True)))
    weights = rounded(exponentials / exponentials.sum(-1, keepdims=True))
    d_weights = rounded(d_out @ transposed(v))
    d_scores = rounded(weights * (d_weights - (d_weights * weights).sum(-1, keepdims=True)))
    return {
        "out": rounded(weights @ v),
        "d_q": rounded(rounded(d_scores @ k) * scale),
        "d_k": rounded(rounded(transposed(d_scores) @ q) * scale),
        "d_v": rounded(transposed(weights) @ d_out),
    }


def rounding_to(dtype):
    """Returns a function that rounds float32 arrays to "float32", "bfloat16" or "float16"."""
    if dtype == "float16":
        return lambda x: x.astype(np.float16).astype(np.float32)
    if dtype == "float32":
        return lambda x: x.astype(np.float32)

    def bfloat16(x):
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).reshape(x.shape)

    return bfloat16


EPSILON = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def allowed_errors(exact, plain, dtype, largest_input, width, queries):
    """Returns the allowed error by tensor: twice that of plain formulas in the same dtype, plus roundings of the
    result, of sums of products that may cancel, and, for gradients, of the output that a flash backward reads in its
    dtype."""
    rounding = EPSILON[dtype]
    sums = EPSILON["float32"] * width + 1e-5
    reread = (2 * EPSILON[dtype] + 16 * EPSILON["float32"] * np.sqrt(queries)) * largest_input
    return {
        name: 2 * np.abs(plain[name] - exact[name]).max() + rounding * np.abs(exact[name]).max() + sums
        + (0 if name == "out" else reread)
        for name in exact
    }  # fmt: skip
