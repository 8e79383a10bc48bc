"""Attention callables on torch tensors, each with a check of what actually ran."""
import contextlib
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from .refusal import Refusal, missing


def naive(q, k, v, scale, mask):
    scores = q @ k.transpose(-2, -1) * scale
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    return torch.softmax(scores, -1) @ v


class Implementation:
    layout = "bhsd"  # batch, heads, sequence, width

    def __init__(self, request, device):
        self.causal, self.device = request["causal"], device
        self.batch, self.heads, self.length, self.width = request["shape"]
        self.scale = 1 / math.sqrt(self.width)
        self.repeats_backward = request["study"] == "kernel"  # runs backward repeatedly on one forward
        self.versions = {}

    def check(self, output):
        """Returns a description of what ran; raises a Refusal if it is not the requested implementation."""
        return output.grad_fn.name()

    def check_after_samples(self):
        pass


class Naive(Implementation):
    def __init__(self, request, device):
        super().__init__(request, device)
        self.mask = None
        if self.causal:
            self.mask = torch.ones(self.length, self.length, dtype=torch.bool, device=device).triu(1)

    def __call__(self, q, k, v):
        return naive(q, k, v, self.scale, self.mask)

    def check(self, output):
        return "eager operations"


class Compiled:
    """Mixin for functions of torch.compile, which falls back to eager silently, so that its counters are checked."""

    def compile(self, function):
        import torch._functorch.config
        torch._functorch.config.donated_buffer = not self.repeats_backward
        self.start_over()
        return torch.compile(function, dynamic=False)

    @staticmethod
    def start_over():
        import torch._dynamo
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        if hasattr(torch._dynamo.config, "fail_on_recompile_limit_hit"):
            torch._dynamo.config.fail_on_recompile_limit_hit = True

    @staticmethod
    def graphs():
        return torch._dynamo.utils.counters["stats"]["unique_graphs"]

    def check(self, _output):
        breaks = dict(torch._dynamo.utils.counters["graph_break"])
        if self.graphs() == 0 or breaks:
            raise Refusal("invalid", f"torch.compile did not compile all of it: {self.graphs()} graphs, breaks {breaks}")
        self.graphs_at_start = self.graphs()
        return f"{self.graphs()} compiled graph(s), no graph break"

    def check_after_samples(self):
        if self.graphs() != self.graphs_at_start:
            raise Refusal("invalid", f"torch.compile recompiled during the samples: {self.graphs_at_start} graphs "
                                     f"before, {self.graphs()} after")


class CompiledNaive(Compiled, Naive):
    def __init__(self, request, device):
        super().__init__(request, device)
        self.function = self.compile(naive)

    def __call__(self, q, k, v):
        return self.function(q, k, v, self.scale, self.mask)


class Flex(Compiled, Implementation):
    def __init__(self, request, device):
        super().__init__(request, device)
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        self.function = self.compile(flex_attention)
        self.mask = None
        if self.causal:
            self.mask = create_block_mask(lambda _b, _h, query, key: query >= key, None, None,
                                          self.length, self.length, device=device)

    def __call__(self, q, k, v):
        return self.function(q, k, v, block_mask=self.mask, scale=self.scale)


class Sdpa(Implementation):
    """PyTorch's own choice if `backend` is None; otherwise that backend or an error, never another one."""
    backend, marker = None, "ScaledDotProduct"

    def __call__(self, q, k, v):
        only = sdpa_kernel([self.backend]) if self.backend is not None else contextlib.nullcontext()
        with only:
            return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)

    def check(self, output):
        ran = output.grad_fn.name()
        if self.backend is not None and not self.is_asked_for(ran):
            raise Refusal("invalid", f"SDPA was to run {self.backend.name}, and ran {ran}")
        return ran

    def is_asked_for(self, ran):
        return self.marker in ran


class SdpaFlash(Sdpa):
    backend, marker = SDPBackend.FLASH_ATTENTION, "FlashAttention"


class SdpaCudnn(Sdpa):
    backend, marker = SDPBackend.CUDNN_ATTENTION, "CudnnAttention"


class SdpaEfficient(Sdpa):
    backend, marker = SDPBackend.EFFICIENT_ATTENTION, "EfficientAttention"


class SdpaMath(Sdpa):
    """The one backend made of ordinary operations, which has no autograd name of its own."""
    backend = SDPBackend.MATH

    def is_asked_for(self, ran):
        return self.marker not in ran


class PackageImplementation(Implementation):
    """A library other than PyTorch, which expects [batch, sequence, heads, width]."""
    layout = "bshd"
    package = module = function = ""

    def __init__(self, request, device):
        super().__init__(request, device)
        import importlib
        try:
            module = importlib.import_module(self.module)
        except ImportError as error:
            raise missing(self.package, error) from error
        self.call = getattr(module, self.function)
        root = importlib.import_module(self.module.split(".")[0])
        self.versions = {self.package: getattr(root, "__version__", "unknown")}


class FlashAttention2(PackageImplementation):
    package, module, function = "flash-attn", "flash_attn", "flash_attn_func"

    def __call__(self, q, k, v):
        return self.call(q, k, v, softmax_scale=self.scale, causal=self.causal)


class FlashAttention3(PackageImplementation):
    package, module, function = "flash-attn-3", "flash_attn_interface", "flash_attn_func"

    def __call__(self, q, k, v):
        output = self.call(q, k, v, softmax_scale=self.scale, causal=self.causal)
        return output[0] if isinstance(output, tuple) else output  # older versions also return the log-sum-exp


class Xformers(PackageImplementation):
    package, module, function = "xformers", "xformers.ops", "memory_efficient_attention"

    def __init__(self, request, device):
        super().__init__(request, device)
        from xformers.ops import LowerTriangularMask
        self.mask = LowerTriangularMask() if self.causal else None

    def __call__(self, q, k, v):
        return self.call(q, k, v, attn_bias=self.mask, scale=self.scale)


IMPLEMENTATIONS = {
    "torch.naive": Naive,
    "torch.compile": CompiledNaive,
    "torch.sdpa": Sdpa,
    "torch.sdpa.flash": SdpaFlash,
    "torch.sdpa.cudnn": SdpaCudnn,
    "torch.sdpa.efficient": SdpaEfficient,
    "torch.sdpa.math": SdpaMath,
    "torch.flex": Flex,
    "flash_attn": FlashAttention2,
    "flash_attn_3": FlashAttention3,
    "xformers": Xformers,
}


def make(request, device):
    return IMPLEMENTATIONS[request["implementation"]](request, device)
