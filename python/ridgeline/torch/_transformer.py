"""TransformerLM on our attention; its weights are exchanged with `ridgeline model`."""

import math

from .. import _program
from ..errors import InvalidArgument
from . import _safetensors, _torch_lm
from ._attention import attention as _attention


def _attend(q, k, v, _):
    return _attention(q.to(v.dtype), k.to(v.dtype), v, causal=True)


_torch_lm.ATTENTIONS["ridgeline"] = _attend


class TransformerLM(_torch_lm.TransformerLM):
    """The language model of Stanford's CS336 (docs/models.md): logits [batch, length, vocab_size] of token ids
    [batch, length], and loss(tokens, targets). `attention` is "ridgeline", "sdpa" or "plain".

        model = TransformerLM.from_size("small", context_length=128)
        model.save_safetensors("small.safetensors")       # ridgeline model --weights small.safetensors
        model = TransformerLM.from_safetensors("trained.safetensors", context_length=128)   # of --save-weights
    """

    def __init__(self, vocab_size, context_length, d_model, num_layers, num_heads, d_ff, rope_theta=10_000.0,
                 attention="ridgeline"):  # fmt: skip
        if attention not in _torch_lm.ATTENTIONS:
            raise InvalidArgument(f"attention is {attention!r}: expected one of {', '.join(_torch_lm.ATTENTIONS)}")
        if num_heads < 1 or d_model % num_heads or d_model // num_heads % 2:
            raise InvalidArgument(f"{num_heads} heads of a model {d_model} wide: expected heads of one even width")
        if not 0 < rope_theta < math.inf:
            raise InvalidArgument(f"rope_theta is {rope_theta!r}: expected a number above 0")
        super().__init__(d_model, d_ff, num_layers, num_heads, context_length, vocab_size, attention, rope_theta)
        self.config = {"vocab_size": vocab_size, "context_length": context_length, "d_model": d_model,
                       "num_layers": num_layers, "num_heads": num_heads, "d_ff": d_ff, "rope_theta": rope_theta}  # fmt: skip

    @classmethod
    def from_size(cls, size, context_length, attention="ridgeline", **overrides):
        """Makes a model of a named size: small, medium, large, xl, 2.7B, 10B."""
        sizes = _program.facts()["transformers"]
        if size not in sizes:
            raise InvalidArgument(f"there is no size {size!r}: expected one of {', '.join(sizes)}")
        facts = {name: value for name, value in sizes[size].items() if name != "norm_epsilon"}
        return cls(context_length=context_length, attention=attention, **{**facts, **overrides})

    @classmethod
    def from_safetensors(cls, path, context_length, num_heads=None, attention="ridgeline", rope_theta=None):
        """Loads the model in a file. Its sizes follow from shapes, num_heads and rope_theta from the file's metadata
        unless they are given. Files of `ridgeline model` contain the number of heads, and imply a rope_theta of
        10,000."""
        tensors, metadata = _safetensors.read(path)
        for name in ("token_embeddings.weight", "layers.0.ffn.w1.weight"):
            if name not in tensors:
                raise InvalidArgument(f"{path} has no {name}: expected the weights of a TransformerLM")
            if tensors[name].dim() != 2:
                raise InvalidArgument(f"{name} of {path} is {list(tensors[name].shape)}: expected a matrix")
        if num_heads is None:
            num_heads = _number(path, metadata, "heads", int)
        if num_heads is None:
            raise InvalidArgument(f"{path} does not say how many heads it has: pass num_heads")
        if rope_theta is None:
            rope_theta = _number(path, metadata, "rope_theta", float)
        vocab_size, d_model = tensors["token_embeddings.weight"].shape
        layers = {name.split(".")[1] for name in tensors if name.startswith("layers.")}
        model = cls(vocab_size, context_length, d_model, len(layers), num_heads, tensors["layers.0.ffn.w1.weight"].shape[0],
                    10_000.0 if rope_theta is None else rope_theta, attention)  # fmt: skip
        try:
            model.load_state_dict({name: x.float() for name, x in tensors.items()})
        except RuntimeError as problem:
            raise InvalidArgument(f"{path} holds no TransformerLM: {problem}") from None
        return model

    def save_safetensors(self, path):
        """Writes the weights in float32 for `ridgeline model --weights`, which uses a rope_theta of 10,000."""
        weights = {name: p.detach().float() for name, p in self.named_parameters()}
        _safetensors.write(path, weights, {"heads": self.config["num_heads"], "rope_theta": self.config["rope_theta"]})


def _number(path, metadata, name, kind):
    """Returns a number of a file's metadata, which is all text; None if it is absent."""
    if name not in metadata:
        return None
    try:
        number = kind(metadata[name])
    except ValueError:
        number = 0
    if not 0 < number < math.inf:
        raise InvalidArgument(f"{name} of {path} is {metadata[name]!r}: expected a number above 0. Pass num_heads or rope_theta")
    return number
