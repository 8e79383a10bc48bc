"""Helpers with the names used by lab courses on efficient transformers, on Ridgeline's harness and tables.

    from ridgeline.lab import *

    benchmark_latency(torch.matmul, a, b)                  # mean milliseconds
    plot_roofline("A100", 19.5, 2.0, {"gemm 1024": 341.3, "gemv 1024": 1.0})

Importing it needs neither PyTorch nor matplotlib; functions that need them say so when they are called.
"""

from ..errors import Unsupported
from .benchmark import benchmark_latency, benchmark_memory, count_cuda_kernels, default_schedule
from .config import GPU_SPECS, gemma_config, get_ridge_point
from .visualization import plot_flash_attn_improvement, plot_gemm_torch_matmul_latency, plot_roofline

_OF_LAYERS = ("GemmaDecoderLayer", "GemmaRotaryEmbedding", "StaticCache", "create_decode_inputs_with_cache",
              "create_decode_inputs_without_cache", "create_prefill_inputs", "decode_forward", "get_position_embeddings",
              "initialize_kv_cache", "prefill_forward")  # fmt: skip

__all__ = ["GEMMA_CONFIG", "GPU_SPECS", "benchmark_latency", "benchmark_memory", "count_cuda_kernels", "default_schedule",
           "gemma_config", "get_ridge_point", "plot_flash_attn_improvement", "plot_gemm_torch_matmul_latency", "plot_roofline",
           *_OF_LAYERS]  # fmt: skip


def _needs_torch(name):
    def missing(*_, **__):
        raise Unsupported(f"{name} needs PyTorch: pip install torch")

    return missing


def __getattr__(name):
    if name == "GEMMA_CONFIG":
        globals()[name] = gemma_config("270m")
    elif name in _OF_LAYERS:
        try:
            from . import layers

            globals()[name] = getattr(layers, name)
        except ImportError:
            globals()[name] = _needs_torch(name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]
