"""A decoder layer of Gemma-3 in PyTorch on our attention, its cache, and the course's helpers to run one.

The helpers also accept the decoder layers, rotary embeddings and caches of transformers.
"""

import inspect
import math

import torch
from torch import nn

from ..errors import InvalidArgument, Unsupported
from ..torch import attention


def _rms_norm(x, weight, epsilon):
    exact = x.float()
    return (exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + epsilon) * (1 + weight.float())).to(x.dtype)


class _Norm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.zeros(width)), epsilon

    def forward(self, x):
        return _rms_norm(x, self.weight, self.epsilon)


def _rotate(x, cos, sin):
    """Rotates pairs (k, k + width / 2) of the last axis by the angles of their positions."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class GemmaRotaryEmbedding(nn.Module):
    """cos and sin [batch, length, head_dim] of position_ids [batch, length], for one kind of layer."""

    def __init__(self, config):
        super().__init__()
        self._ropes = {kind: _theta_and_factor(config, kind) for kind in ("full_attention", "sliding_attention")}
        self.head_dim = config.head_dim

    def forward(self, x, position_ids, layer_type):
        if layer_type not in self._ropes:
            raise InvalidArgument(f"layer_type is {layer_type!r}: expected {' or '.join(self._ropes)}")
        theta, factor = self._ropes[layer_type]
        exponents = torch.arange(0, self.head_dim, 2, device=x.device) / self.head_dim
        angles = position_ids[..., None].float() / factor * theta**-exponents
        angles = torch.cat((angles, angles), -1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def _theta_and_factor(config, kind):
    """Returns the RoPE base of a kind of layer, and the divisor of its positions. Newer configurations have a table for
    each kind (rope_parameters); older ones scale only full attention (rope_scaling)."""
    is_full = kind == "full_attention"
    table = getattr(config, "rope_parameters", None) or {}
    if isinstance(table.get(kind), dict):
        table = table[kind]
    elif is_full:
        table = {**(getattr(config, "rope_scaling", None) or {}), **table}
    form = table.get("rope_type", table.get("type", "default"))
    if form not in ("default", "linear"):
        raise Unsupported(f"rope_type of {kind} is {form!r}: expected 'default' or 'linear'")
    otherwise = getattr(config, "rope_theta", 1e6) if is_full else getattr(config, "rope_local_base_freq", 1e4)
    theta, factor = table.get("rope_theta", otherwise), table.get("factor", 1.0) if form == "linear" else 1.0
    for name, value in (("rope_theta", theta), ("factor", factor)):
        if not isinstance(value, (int, float)) or not value > 0:
            raise InvalidArgument(f"{name} of {kind} is {value!r}: expected a number above 0")
    return theta, factor


def _end(positions):
    """Returns the last of these positions plus 1. The number is cached with the tensor until that changes, because
    reading it from a GPU in each layer of each step would make the host wait."""
    if positions.is_inference():  # has no version
        return int(positions[-1]) + 1
    version, end = getattr(positions, "_end", (None, None))
    if version != positions._version:
        end = int(positions[-1]) + 1
        positions._end = positions._version, end
    return end


class StaticCache:
    """Keys and values of every layer, [batch, key_heads, max_cache_len, head_dim]; allocated at the first update."""

    def __init__(self, config, max_cache_len):
        self.max_cache_len = max_cache_len
        self._layers = [None] * config.num_hidden_layers

    def update(self, keys, values, layer_idx, cache_position):
        """Stores keys and values at their positions, and returns all up to the last one."""
        end = _end(cache_position)
        if end > self.max_cache_len:
            raise InvalidArgument(f"position {end - 1} in a cache of {self.max_cache_len}: make it longer (max_cache_len)")
        if self._layers[layer_idx] is None:
            room = (*keys.shape[:2], self.max_cache_len, keys.shape[-1])
            self._layers[layer_idx] = keys.new_zeros(room), values.new_zeros(room)
        for kept, new in zip(self._layers[layer_idx], (keys, values)):
            kept[:, :, cache_position] = new
        return tuple(kept[:, :, :end] for kept in self._layers[layer_idx])


def _cached(cache, keys, values, layer_idx, cache_position):
    """Stores keys and values, and returns all up to the last one. Caches of transformers also return room that is not
    used yet, and begin later if the layer's window has passed."""
    if isinstance(cache, StaticCache):
        return cache.update(keys, values, layer_idx, cache_position)
    _, first = cache.get_mask_sizes(keys.shape[2], layer_idx)
    present = _end(cache_position) - first
    return tuple(x[:, :, :present] for x in cache.update(keys, values, layer_idx))


class GemmaAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.layer_idx, self.heads, self.key_heads = layer_idx, config.num_attention_heads, config.num_key_value_heads
        self.layer_type = config.layer_types[layer_idx]
        self.window = config.sliding_window if self.layer_type == "sliding_attention" else None
        self.scale = config.query_pre_attn_scalar**-0.5
        width, head_dim = config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(width, self.heads * head_dim, bias=False)
        self.k_proj = nn.Linear(width, self.key_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(width, self.key_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * head_dim, width, bias=False)
        self.q_norm, self.k_norm = (_Norm(head_dim, config.rms_norm_eps) for _ in range(2))

    def forward(self, x, position_embeddings, past_key_values, cache_position):
        q, k, v = (project(x).unflatten(-1, (heads, -1)).transpose(1, 2) for project, heads in
                   ((self.q_proj, self.heads), (self.k_proj, self.key_heads), (self.v_proj, self.key_heads)))  # fmt: skip
        cos, sin = (table[:, None] for table in position_embeddings)
        q, k = _rotate(self.q_norm(q), cos, sin), _rotate(self.k_norm(k), cos, sin)
        if past_key_values is not None:
            k, v = _cached(past_key_values, k, v, self.layer_idx, cache_position)
        mixed = attention(q, k, v, causal="bottom_right", window=self.window, scale=self.scale, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(-2))


class GemmaMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.gate_proj, self.up_proj = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x))


class GemmaDecoderLayer(nn.Module):
    """One layer of Gemma-3 (docs/gemma.md), with the weight names of transformers."""

    def __init__(self, config, layer_idx=0):
        super().__init__()
        self.self_attn, self.mlp = GemmaAttention(config, layer_idx), GemmaMLP(config)
        self.attention_type = self.self_attn.layer_type
        norms = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
        for name in norms:
            setattr(self, name, _Norm(config.hidden_size, config.rms_norm_eps))

    def forward(self, hidden_states, position_embeddings, past_key_values=None, cache_position=None):
        mixed = self.self_attn(self.input_layernorm(hidden_states), position_embeddings, past_key_values, cache_position)
        hidden_states = hidden_states + self.post_attention_layernorm(mixed)
        inner = self.mlp(self.pre_feedforward_layernorm(hidden_states))
        return hidden_states + self.post_feedforward_layernorm(inner)


def create_prefill_inputs(batch_size, seq_len, hidden_size, dtype=torch.float32, device="cpu"):
    """Returns random hidden states [batch, seq_len, hidden] and their positions [batch, seq_len]."""
    hidden_states = torch.randn(batch_size, seq_len, hidden_size, dtype=dtype, device=device)
    return hidden_states, torch.arange(seq_len, device=device).expand(batch_size, -1)


def create_decode_inputs_with_cache(batch_size, current_seq_len, hidden_size, dtype=torch.float32, device="cpu"):
    """Returns hidden states [batch, 1, hidden] of one token after current_seq_len others, its position, and its place
    in the cache."""
    hidden_states = torch.randn(batch_size, 1, hidden_size, dtype=dtype, device=device)
    cache_positions = torch.tensor([current_seq_len], device=device)
    if not cache_positions.is_inference():
        cache_positions._end = cache_positions._version, current_seq_len + 1
    return hidden_states, cache_positions.expand(batch_size, 1), cache_positions


def create_decode_inputs_without_cache(batch_size, current_seq_len, hidden_size, dtype=torch.float32, device="cpu"):
    """Returns the same without a cache: the token, all positions up to its own, and the hidden states before it."""
    hidden_states = torch.randn(batch_size, 1, hidden_size, dtype=dtype, device=device)
    before = torch.randn(batch_size, current_seq_len, hidden_size, dtype=dtype, device=device)
    return hidden_states, torch.arange(current_seq_len + 1, device=device).expand(batch_size, -1), before


def get_position_embeddings(hidden_states, position_ids, rotary_emb, layer_type):
    """Returns (cos, sin) of the positions for a kind of layer: "full_attention" or "sliding_attention"."""
    return rotary_emb(hidden_states, position_ids, layer_type)


def initialize_kv_cache(config, max_cache_len):
    """Returns a static cache for all layers of a configuration; transformers' own for one of transformers."""
    if type(config).__module__.startswith("transformers"):
        from transformers import StaticCache as TheirStaticCache

        return TheirStaticCache(config=config, max_cache_len=max_cache_len)
    return StaticCache(config, max_cache_len)


def _forward(layer, hidden_states, position_ids, position_embeddings, past_key_values, cache_position):
    given = {"position_ids": position_ids, "position_embeddings": position_embeddings, "past_key_values": past_key_values,
             "past_key_value": past_key_values, "cache_position": cache_position,
             "position_embeddings_global": position_embeddings, "position_embeddings_local": position_embeddings}  # fmt: skip
    taken = inspect.signature(layer.forward).parameters
    if "attention_mask" in taken:
        given["attention_mask"] = _mask(layer, hidden_states, position_ids, past_key_values)
        given["use_cache"] = past_key_values is not None
    out = layer(hidden_states, **{name: value for name, value in given.items() if name in taken})
    return out[0] if isinstance(out, tuple) else out


def _mask(layer, hidden_states, position_ids, past_key_values):
    """Returns the mask that layers of transformers need; True means visible."""
    queries = position_ids[0, -hidden_states.shape[1] :]
    keys = queries
    if past_key_values is not None:  # a cache may return more than was stored, or begin later
        count, first = past_key_values.get_mask_sizes(len(queries), layer.self_attn.layer_idx)
        keys = first + torch.arange(count, device=queries.device)
    window = getattr(layer.self_attn, "sliding_window", None)
    distance = queries[:, None] - keys
    seen = (distance >= 0) & (distance < (window or math.inf))
    hidden = torch.zeros(seen.shape, dtype=hidden_states.dtype, device=queries.device)
    return hidden.masked_fill(~seen, torch.finfo(hidden.dtype).min).expand(hidden_states.shape[0], 1, -1, -1)


@torch.no_grad()
def prefill_forward(layer, hidden_states, position_ids, position_embeddings, past_key_values=None):
    """Runs a whole prompt; with a cache its keys and values are stored."""
    return _forward(layer, hidden_states, position_ids, position_embeddings, past_key_values, position_ids[0])


@torch.no_grad()
def decode_forward(layer, hidden_states, position_ids, position_embeddings, use_kv_cache=True, past_key_values=None,
                   cache_positions=None, prefill_hidden_states=None):  # fmt: skip
    """Runs one token, with the cache or by recomputing all tokens before it. Returns the output of that token."""
    if use_kv_cache:
        if past_key_values is None or cache_positions is None:
            raise InvalidArgument("decoding with a cache needs past_key_values and cache_positions")
        return _forward(layer, hidden_states, position_ids, position_embeddings, past_key_values, cache_positions)
    if prefill_hidden_states is None:
        raise InvalidArgument("decoding without a cache needs prefill_hidden_states, the tokens before this one")
    whole = torch.cat((prefill_hidden_states, hidden_states), 1)
    return _forward(layer, whole, position_ids, position_embeddings, None, position_ids[0])[:, -1:]
