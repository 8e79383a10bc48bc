"""The module of each implementation; src/studies/peers/implementations.cc has the same names."""
import importlib

from .torch_forms import MODELS

IMPLEMENTATIONS = {
    "torch.naive": "torch_library",
    "torch.compile": "torch_library",
    "torch.sdpa": "torch_library",
    "torch.sdpa.flash": "torch_library",
    "torch.sdpa.cudnn": "torch_library",
    "torch.sdpa.efficient": "torch_library",
    "torch.sdpa.math": "torch_library",
    "torch.flex": "torch_library",
    "flash_attn": "torch_library",
    "flash_attn_3": "torch_library",
    "xformers": "torch_library",
    "jax.naive": "jax_library",
    "jax.xla": "jax_library",
    "jax.cudnn": "jax_library",
}

# Models that generate text.
TEXTS = {
    "transformers.eager": "transformers_text",
    "transformers.static.compile": "transformers_text",
    "transformers.graph": "transformers_text",
    "llama.cpp": "llama_text",
}


def open_problem(request):
    """Returns the problem of a request, ready to run."""
    if request["study"] == "generate":
        return importlib.import_module("peers." + TEXTS[request["implementation"]]).Problem(request)
    if "model" in request:
        return importlib.import_module("peers.torch_model").Problem(request)
    return importlib.import_module("peers." + IMPLEMENTATIONS[request["implementation"]]).Problem(request)
