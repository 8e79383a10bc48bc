"""The forms in which PyTorch runs whole models. Does not import PyTorch, so that it creates no GPU context."""
import dataclasses

SCENARIOS = ("forward", "fwd-bwd", "full-step")


@dataclasses.dataclass(frozen=True)
class Form:
    attention: str = "sdpa"
    mode: str | None = "default"  # mode of torch.compile; None: eager
    capture: bool = False         # the whole step becomes one CUDA graph
    cast_ahead: bool = False      # weights of products are cast to bf16 before timing; forward only


FORMS = {
    "eager": Form(attention="plain", mode=None),
    "eager-sdpa": Form(mode=None),
    "compile": Form(),
    "graph": Form(capture=True),
    "reduce-overhead": Form(mode="reduce-overhead"),
    "autotune": Form(mode="max-autotune-no-cudagraphs", capture=True),
    "graph-cast": Form(capture=True, cast_ahead=True),
    "autotune-cast": Form(mode="max-autotune-no-cudagraphs", capture=True, cast_ahead=True),
}
# Implementations that ridgeline offers by name; src/studies/peers/implementations.cc has the same names.
MODELS = {
    "torch.eager": Form(attention="plain", mode=None),
    "torch.sdpa": Form(mode=None),
    "torch.compile": Form(attention="plain"),
    "torch.compile.sdpa": Form(),
    "torch.compile.reduce-overhead": Form(mode="reduce-overhead"),
}
# Sets of forms by how long they take: torch.compile of a large model takes minutes.
PEERS = {
    "eager": ["eager"],
    "quick": ["graph", "graph-cast"],
    "best": ["eager", "compile", "graph", "reduce-overhead", "autotune", "graph-cast", "autotune-cast"],
}
