"""Data sheets of GPUs and the configuration of Gemma-3, both from the program's own tables."""

import types
from collections.abc import Mapping

from .. import _program
from ..errors import InvalidArgument


class _Specs(Mapping):
    """GPU_SPECS["A100"]: dense peaks, read from the program on first use. Short names mean the largest of their kind,
    as for --gpu; full names ("A100 PCIe 40 GB") select one."""

    def _table(self):
        return {spec["name"]: spec for spec in _program.facts()["gpus"]}

    def _find(self, name):
        if not isinstance(name, str):
            raise KeyError(name)
        words = set(name.lower().replace("-", " ").split())
        fitting = [spec for spec in self._table().values() if words and words <= set(spec["name"].lower().split())]
        if name in self._table():
            return self._table()[name]
        if not fitting:
            raise KeyError(f"{name!r}: known are {', '.join(self._table())}")
        return fitting[-1]

    def __getitem__(self, name):
        spec = self._find(name)
        peaks = {f"{dtype}_tflops": value for dtype, value in spec["dense_tflops"].items()}
        return {"name": spec["name"], **peaks, "memory_bandwidth_tb_s": spec["gb_per_s"] / 1e3, "memory_gb": spec["memory_gb"]}

    def __iter__(self):
        return iter(self._table())

    def __len__(self):
        return len(self._table())

    def __repr__(self):
        return f"GPU_SPECS of {', '.join(self)}"


GPU_SPECS = _Specs()


def get_ridge_point(gpu_name, dtype="fp16"):
    """Returns the FLOPs per byte above which a kernel on this GPU is bound by arithmetic instead of memory."""
    try:
        spec = GPU_SPECS[gpu_name]
    except KeyError as problem:
        raise InvalidArgument(f"there is no data sheet of {problem.args[0]}") from None
    peak = spec.get(f"{dtype}_tflops")
    if peak is None:
        known = ", ".join(key[: -len("_tflops")] for key in spec if key.endswith("_tflops"))
        raise InvalidArgument(f"{spec['name']} has no {dtype!r}: expected one of {known}")
    return peak / spec["memory_bandwidth_tb_s"]


def gemma_config(size):
    """Returns the configuration of a Gemma-3 ("270m", "1b", "4b"): transformers' Gemma3TextConfig if that is installed,
    else an object with the same attributes."""
    sizes = _program.facts()["gemma3"]
    if size not in sizes:
        raise InvalidArgument(f"there is no Gemma-3 {size!r}: expected one of {', '.join(sizes)}")
    try:
        from transformers import Gemma3TextConfig
    except ImportError:
        return types.SimpleNamespace(**sizes[size])
    return Gemma3TextConfig(**sizes[size])
