"""TransformerLM on our attention, whose weights move to and from `ridgeline model`."""

import importlib.util
import os

import torch

from .. import _program
from ..errors import InvalidArgument
from . import _safetensors
from ._attention import attention as _attention


def _load_peer():
    """torch_lm of the peers' scripts, the one definition of the model: the program runs it beside its own, too."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = [os.path.join(package, "share", "ridgeline", "peers"), os.path.join(package, "..", "..", "peers")]
    for folder in places:
        path = os.path.join(folder, "torch_lm.py")
        if os.path.exists(path):
            spec = importlib.util.spec_from_file_location("ridgeline.torch._torch_lm", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise ImportError(f"the package is not whole: torch_lm.py is in none of {', '.join(places)}. Install it again with pip")


_torch_lm = _load_peer()
_torch_lm.ATTENTIONS["ridgeline"] = lambda q, k, v, _: _attention(q.to(v.dtype), k.to(v.dtype), v, causal=True)


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
        super().__init__(d_model, d_ff, num_layers, num_heads, context_length, vocab_size, attention, rope_theta)
        self.config = {"vocab_size": vocab_size, "context_length": context_length, "d_model": d_model,
                       "num_layers": num_layers, "num_heads": num_heads, "d_ff": d_ff, "rope_theta": rope_theta}  # fmt: skip

    @classmethod
    def from_size(cls, size, context_length, attention="ridgeline", **overrides):
        """A size by its name: small, medium, large, xl, 2.7B, 10B."""
        sizes = _program.facts()["transformers"]
        if size not in sizes:
            raise InvalidArgument(f"there is no size {size!r}: expected one of {', '.join(sizes)}")
        facts = {name: value for name, value in sizes[size].items() if name != "norm_epsilon"}
        return cls(context_length=context_length, attention=attention, **{**facts, **overrides})

    @classmethod
    def from_safetensors(cls, path, context_length, num_heads=None, attention="ridgeline"):
        """The model whose weights a file holds; shapes tell its sizes, the file's metadata or num_heads the heads."""
        tensors, metadata = _safetensors.read(path)
        for name in ("token_embeddings.weight", "layers.0.ffn.w1.weight"):
            if name not in tensors:
                raise InvalidArgument(f"{path} has no {name}: expected the weights of a TransformerLM")
        num_heads = num_heads or int(metadata.get("heads", 0))
        if not num_heads:
            raise InvalidArgument(f"{path} does not say how many heads it has: pass num_heads")
        vocab_size, d_model = tensors["token_embeddings.weight"].shape
        layers = {name.split(".")[1] for name in tensors if name.startswith("layers.")}
        model = cls(vocab_size, context_length, d_model, len(layers), num_heads, tensors["layers.0.ffn.w1.weight"].shape[0],
                    attention=attention)  # fmt: skip
        try:
            model.load_state_dict({name: x.float() for name, x in tensors.items()})
        except RuntimeError as problem:
            raise InvalidArgument(f"{path} holds no TransformerLM: {problem}") from None
        return model

    def save_safetensors(self, path):
        """Writes the weights in float32, as `ridgeline model --weights` reads them."""
        weights = {name: p.detach().float() for name, p in self.named_parameters()}
        _safetensors.write(path, weights, {"heads": self.config["num_heads"]})
