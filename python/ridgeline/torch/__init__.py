"""Ridgeline for PyTorch: attention with gradients, scaled_dot_product_attention on our kernels, and a course's parts.

    import torch, ridgeline.torch

    out = ridgeline.torch.attention(q, k, v, causal=True)   # gradients, torch.compile, CUDA graphs
    ridgeline.torch.activate()                              # models that call scaled_dot_product_attention
"""

from ._attention import FlashAttention, attention
from ._parallel import DDP, FSDP, ShardedOptimizer
from ._sdpa import activate

__all__ = ["DDP", "FSDP", "FlashAttention", "ShardedOptimizer", "TransformerLM", "activate", "attention"]


def __getattr__(name):
    if name != "TransformerLM":  # the only part that loads another file
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._transformer import TransformerLM

    return TransformerLM
