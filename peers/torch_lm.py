"""TransformerLM of docs/models.md in PyTorch: the peer of our models, eager and for torch.compile, and the base of
ridgeline.torch.TransformerLM."""
import math

import torch
import torch.nn.functional as F
from torch import nn

# width, feed-forward width, layers, heads
SIZES = {
    "small": (768, 3072, 12, 12),
    "medium": (1024, 4096, 24, 16),
    "large": (1280, 5120, 36, 20),
    "xl": (1600, 6400, 48, 25),
    "2.7B": (2560, 10240, 32, 32),
}
VOCABULARY = 10_000
ROTARY_BASE = 10_000.0


def linear(inputs, outputs):
    layer = nn.Linear(inputs, outputs, bias=False)
    std = math.sqrt(2 / (inputs + outputs))
    nn.init.trunc_normal_(layer.weight, std=std, a=-3 * std, b=3 * std)
    return layer


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        exact = x.float()
        scale = torch.rsqrt(exact.square().mean(-1, keepdim=True) + self.eps)
        return (exact * scale * self.weight).to(x.dtype)


def rotate(x, cos, sin):
    """Rotates pairs (2k, 2k + 1) of the last axis by the angle of their position."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def plain_attention(q, k, v, visible):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return torch.softmax(scores.masked_fill(~visible, -math.inf), dim=-1) @ v


def sdpa_attention(q, k, v, _):
    return F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)


ATTENTIONS = {"plain": plain_attention, "sdpa": sdpa_attention}


class Attention(nn.Module):
    def __init__(self, width, heads, attention):
        super().__init__()
        self.heads, self.attention = heads, ATTENTIONS[attention]
        self.q_proj, self.k_proj, self.v_proj, self.output_proj = (linear(width, width) for _ in range(4))

    def forward(self, x, cos, sin, visible):
        q, k, v = (project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for project in (self.q_proj, self.k_proj, self.v_proj))
        mixed = self.attention(rotate(q, cos, sin), rotate(k, cos, sin), v, visible)
        return self.output_proj(mixed.transpose(1, 2).flatten(-2))


class SwiGLU(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w2, self.w3 = linear(width, inner), linear(inner, width), linear(width, inner)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, width, inner, heads, attention):
        super().__init__()
        self.attn, self.ffn = Attention(width, heads, attention), SwiGLU(width, inner)
        self.ln1, self.ln2 = RMSNorm(width), RMSNorm(width)

    def forward(self, x, *positions):
        x = x + self.attn(self.ln1(x), *positions)
        return x + self.ffn(self.ln2(x))


class TransformerLM(nn.Module):
    def __init__(self, width, inner, layers, heads, context, vocabulary=VOCABULARY, attention="plain",
                 theta=ROTARY_BASE):
        super().__init__()
        self.token_embeddings = nn.Embedding(vocabulary, width)
        nn.init.trunc_normal_(self.token_embeddings.weight, std=1, a=-3, b=3)
        self.layers = nn.ModuleList(Layer(width, inner, heads, attention) for _ in range(layers))
        self.ln_final, self.lm_head = RMSNorm(width), linear(width, vocabulary)
        head_dim = width // heads
        frequencies = theta ** (-torch.arange(0, head_dim, 2, device="cpu") / head_dim)
        angles = torch.outer(torch.arange(context, device="cpu"), frequencies)
        for name, table in (("cos", angles.cos()), ("sin", angles.sin()),
                            ("visible", torch.ones(context, context, dtype=torch.bool).tril())):
            self.register_buffer(name, table, persistent=False)

    def forward(self, tokens):
        x, n = self.token_embeddings(tokens), tokens.shape[-1]
        for layer in self.layers:
            x = layer(x, self.cos[:n], self.sin[:n], self.visible[:n, :n])
        return self.lm_head(self.ln_final(x))

    def loss(self, tokens, targets):
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())
